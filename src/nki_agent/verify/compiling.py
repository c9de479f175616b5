"""From source to a Program that may run: check, trace in the sandbox, validate, lay out memory.

Law: everything the tracing process says is checked again here, in a process where no kernel code
runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from nki_agent.base.catalogue import CATALOGUE
from nki_agent.base.diagnostic import Diagnostic, Severity, bounded
from nki_agent.base.errors import MachineError
from nki_agent.check.source import check_source
from nki_agent.check.surface import CODE as OFF_SURFACE
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target, load_chip
from nki_agent.memory.dependence import find_independent_results
from nki_agent.memory.placement import Placement, place_program
from nki_agent.nki.current.tracing import TraceRequest, encode_request
from nki_agent.program.records import Program, TraceReply
from nki_agent.program.stored import StoredError, decode_reply
from nki_agent.program.validate import check_program
from nki_agent.sandbox.outcome import Outcome, OutcomeKind
from nki_agent.sandbox.session import Session
from nki_agent.task.task import ShapeSet
from nki_agent.verify.budget import check_work, elems_max
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.naming import name_tensors
from nki_agent.verify.requests import check_results, find_misfit, make_request
from nki_agent.verify.surface import check_surface
from nki_agent.verify.verdict import Stage

CHEAT_CODES = "NK9"
CHECKED_MAX = 4
"""Kernels whose findings are kept: a verdict asks again for each of its shape sets."""
VM_COUNTERS = Path("/proc/vmstat")
MEMORY_KILLS = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
FINDINGS_MAX = 50
"""Findings that an honest trace may have; it has one at most."""
FORGED = Diagnostic(
    code="NK902",
    what="the tracing process answered with bytes that are no Program",
    hint="a kernel must only call `nki` functions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileResult:
    """How far a kernel came without data.

    `stage` is None where it may run; then `program` and `placement` are there. They are also there
    for a kernel that is `unfit` or whose results do not fit the task, so that it can be looked at.
    """

    stage: Stage | None
    diagnostics: tuple[Diagnostic, ...]
    program: Program | None = None
    placement: Placement | None = None


def compile_kernel(
    kernel: Kernel,
    shapes: ShapeSet,
    *,
    target: Target,
    session: Session,
    surface: Surface = Surface.NKI,
) -> CompileResult:
    """Everything that can be said about a kernel before it sees data."""
    result = _compile(kernel, shapes, target=target, session=session, surface=surface)
    return replace(result, diagnostics=tuple(map(bounded, result.diagnostics)))


def _compile(
    kernel: Kernel, shapes: ShapeSet, *, target: Target, session: Session, surface: Surface
) -> CompileResult:
    findings = list(_check(tuple(kernel.files.items()), kernel.main, target, surface))
    if errors_of(findings):
        return CompileResult(stage=_stage(findings, Stage.REFUSED), diagnostics=tuple(findings))
    request = make_request(kernel, shapes, target, surface)
    program, traced = _trace(request, session)
    findings += traced
    if program is None:
        is_off = any(finding.code == OFF_SURFACE for finding in findings)
        stage = _stage(findings, Stage.REFUSED if is_off else Stage.UNTRACEABLE)
        return CompileResult(stage=stage, diagnostics=tuple(findings))
    chip = load_chip(target)
    invalid = check_program(program, chip)
    misfit = None if invalid else find_misfit(program, request)
    invalid += [] if misfit is None else [misfit]
    if invalid:
        stage = _stage(invalid, Stage.UNTRACEABLE)
        return CompileResult(stage=stage, diagnostics=(*findings, *invalid))
    # Not before: what a Program that was not checked refers to need not be there.
    program = name_tensors(program, kernel.files)
    if off := check_surface(program, surface):
        return CompileResult(stage=Stage.REFUSED, diagnostics=(*findings, *off))
    placement, unfit = place_program(program, chip)
    work = check_work(program, elems_max=elems_max(shapes))
    unfit += () if work is None else (work,)
    findings += unfit
    independent = _check_dependence(program, shapes)
    results = check_results(program, shapes)
    findings += [*independent, *results]
    stage_found: Stage | None = None
    if independent:
        stage_found = Stage.CHEAT
    elif errors_of(unfit):
        stage_found = Stage.UNFIT
    elif results:
        stage_found = Stage.WRONG
    return CompileResult(
        stage=stage_found, diagnostics=tuple(findings), program=program, placement=placement
    )


def _trace(request: TraceRequest, session: Session) -> tuple[Program | None, list[Diagnostic]]:
    """The Program, or why there is none; that it is not the fault of an earlier trace is sure."""
    payload = encode_request(request)
    was_fresh = session.is_fresh
    program, findings = _trace_once(payload, session)
    if program is None and not was_fresh:
        session.close()
        program, findings = _trace_once(payload, session)
    return program, findings


def _trace_once(payload: bytes, session: Session) -> tuple[Program | None, list[Diagnostic]]:
    num_kills = count_memory_kills()
    outcome = session.run(payload)
    if outcome.kind is OutcomeKind.KILLED and count_memory_kills() > num_kills:
        raise MachineError("this machine ran out of memory while it traced a kernel")
    return read_outcome(outcome)


@lru_cache(maxsize=CHECKED_MAX)
def _check(
    files: tuple[tuple[str, str], ...], main: str, target: Target, surface: Surface
) -> tuple[Diagnostic, ...]:
    """What the source alone says: the same at every shape set of a verdict."""
    return tuple(check_source(dict(files), main, target=target, surface=surface))


def errors_of(findings: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The findings that fail a kernel."""
    return [f for f in findings if f.severity is Severity.ERROR]


def _stage(findings: Iterable[Diagnostic], otherwise: Stage) -> Stage:
    cheats = any(f.code.startswith(CHEAT_CODES) for f in errors_of(findings))
    return Stage.CHEAT if cheats else otherwise


def _check_dependence(program: Program, shapes: ShapeSet) -> list[Diagnostic]:
    """NK901 for every output that ignores the arguments though its reference does not.

    Results beyond the task's outputs are NK213: no more than a mistake.
    """
    findings = []
    for number in find_independent_results(program):
        if number >= len(shapes.outputs) or shapes.outputs[number].is_constant:
            continue
        name = shapes.outputs[number].name
        tensor = program.tensors[program.results[number].tensor]
        findings.append(
            Diagnostic(
                code="NK901",
                what=f"no input reaches output `{name}`",
                where=program.stack(tensor.stack),
                hint="compute the output from the arguments; constants alone are no kernel",
            )
        )
    return findings


def count_memory_kills() -> int:
    """Processes that Linux has killed for want of memory since it started.

    A kernel over its own limits gets a MemoryError or another signal, and cannot raise this count.
    """
    try:
        counters = VM_COUNTERS.read_bytes()
    except OSError:
        return 0
    found = MEMORY_KILLS.search(counters)
    return 0 if found is None else int(found[1])


def read_outcome(outcome: Outcome) -> tuple[Program | None, list[Diagnostic]]:
    """The Program of a tracing run, or the findings that say why there is none."""
    match outcome.kind:
        case OutcomeKind.RESULT:
            try:
                reply = decode_reply(outcome.data)
            except StoredError:
                return None, [FORGED]
            if not _is_plausible(reply):
                return None, [FORGED]
            return reply.program, list(map(bounded, reply.findings))
        case OutcomeKind.TIMEOUT:
            return None, [_unfinished("it used too much time", outcome)]
        case OutcomeKind.MEMORY:
            return None, [_unfinished("it used too much memory", outcome)]
        case OutcomeKind.OVERSIZE:
            return None, [_unfinished("its Program is too large", outcome)]
        case OutcomeKind.KILLED | OutcomeKind.EXITED:
            return None, [_unfinished("its process ended without an answer", outcome)]
        case OutcomeKind.RAISED:
            return None, [_unfinished("the tracer failed; please report this", outcome)]


def _is_plausible(reply: TraceReply) -> bool:
    """Whether an honest trace can give this: a Program, or an error of the catalogue."""
    if len(reply.findings) > FINDINGS_MAX or any(f.code not in CATALOGUE for f in reply.findings):
        return False
    return (reply.program is None) == bool(errors_of(reply.findings))


def _unfinished(what: str, outcome: Outcome) -> Diagnostic:
    return Diagnostic(
        code="NK111",
        what=f"tracing did not finish: {what}",
        got=outcome.detail,
        hint="a kernel only records instructions: no endless loops, large host arrays or processes",
    )
