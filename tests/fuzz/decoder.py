"""Hostile Programs: what the tracing process may answer, up to the verdict.

Law: a stored Program, however it was changed, is a `StoredError`, findings, or a run that ends; it
is `right` only where it computes what the task asks for. No other exception, no hang, no great
memory.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.base.errors import KernelError
from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.perfetto import write_trace
from nki_agent.cost.summary import format_summary, summarise
from nki_agent.cost.timeline import schedule
from nki_agent.memory.dependence import find_independent_results
from nki_agent.memory.placement import Placement, place_program
from nki_agent.program.listing import list_program, list_rows
from nki_agent.program.records import Program
from nki_agent.program.stored import StoredError, decode_program, decode_reply, encode_program
from nki_agent.program.validate import check_program
from nki_agent.sandbox.outcome import Outcome, OutcomeKind
from nki_agent.sim.execute import compile_program
from nki_agent.task.task import Task
from nki_agent.task.trial import expected, make_trials
from nki_agent.verify.budget import check_work
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from tests.fuzz.corpus import TARGET, row_programs, shaped_programs
from tests.fuzz.mutation import Kind, Mutator, Tree, change_bytes, collect_values, encode
from tests.judging import load_softmax
from tests.kernels import SOFTMAX

ELEMS_MAX = 2**24
"""More work than this is not run here: it would be sound, and slow."""
ARGUMENT_BYTES_MAX = 2**26
MEMORY_BYTES_MAX = 2**28
STEPS_MAX = 5_000
ROWS_MAX = 2_000
KERNEL = Kernel.from_text(SOFTMAX)
ALLOWED = 1e-4


class WrongVerdictError(AssertionError):
    """A Program is `right` that does not compute the task's answer."""


class Replay:
    """A sandbox whose process answers what the test says."""

    def __init__(self) -> None:
        """No answer yet."""
        self.data = b""

    is_fresh = True

    def open(self) -> Self:
        """Itself: it has no child to keep."""
        return self

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing to end."""

    def run(self, _request: bytes) -> Outcome:
        """The answer, whatever is asked."""
        return Outcome(kind=OutcomeKind.RESULT, data=self.data, wall_ns=1, max_rss_bytes=1)

    def close(self) -> None:
        """Nothing to end."""


@functools.cache
def trees() -> dict[str, Tree]:
    """Every Program of the corpus as a tree."""
    programs = {**shaped_programs(), **row_programs()}
    return {name: msgspec.msgpack.decode(encode_program(p)) for name, p in programs.items()}


@functools.cache
def values() -> dict[Kind, list[Tree]]:
    """What stands at places of each kind in the corpus."""
    return collect_values(trees().values())


def mutated(mutator: Mutator, tree: Tree) -> bytes | None:
    """The bytes of a changed Program."""
    changed = mutator.mutate(tree, times=int(mutator.rng.integers(1, 4)))
    data = encode(changed)
    if data is not None and mutator.rng.random() < 0.05:
        data = change_bytes(mutator.rng, data)
    return data


def try_program(data: bytes) -> str:
    """Put a Program through everything that is done with one; how far it came."""
    try:
        program = decode_program(data)
    except StoredError:
        return "stored"
    chip = load_chip(Target(program.target) if program.target in set(Target) else TARGET)
    if check_program(program, chip):
        return "refused"
    placement, findings = place_program(program, chip)
    find_independent_results(program)
    check_listing(program)
    assert encode_program(decode_program(encode_program(program))) == encode_program(program)
    if check_work(program, elems_max=ELEMS_MAX) is not None:
        return "too much"
    timeline(program, placement)
    if any(f.severity is Severity.ERROR for f in findings):
        return "unfit"
    return try_run(program)


def check_listing(program: Program) -> None:
    """Every line and row is bounded and harmless."""
    for _, line in zip(range(ROWS_MAX), list_program(program), strict=False):
        assert line.isprintable(), line
        assert len(line) < 20_000
    rows = list(list_rows(program, limit=ROWS_MAX))
    for row in rows:
        assert all(frame.function.isprintable() for frame in row.where)
    assert len(msgspec.json.encode(rows)) < 10_000 * (1 + len(rows))


def timeline(program: Program, placement: Placement) -> None:
    """Its cost, as `profile` shows it."""
    chip = load_chip(Target(program.target) if program.target in set(Target) else TARGET)
    found = schedule(program, chip, placement)
    assert np.isfinite(found.latency_ns)
    assert format_summary(summarise(found, program))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        write_trace(found, program, path)
        msgspec.json.decode(path.read_bytes())


def try_run(program: Program) -> str:
    """Simulate it."""
    chip = load_chip(Target(program.target) if program.target in set(Target) else TARGET)
    arrays = arguments(program)
    if arrays is None:
        return "too much"
    try:
        executable = compile_program(
            program, chip, memory_bytes_max=MEMORY_BYTES_MAX, steps_max=STEPS_MAX
        )
    except KernelError as error:
        check_finding(error.diagnostic)
        return "unfit"
    try:
        executable.run(arrays)
    except KernelError as error:
        check_finding(error.diagnostic)
        return "ended"
    return "ran"


def check_finding(finding: Diagnostic) -> None:
    """It has a code and can be shown."""
    assert finding.code
    assert str(finding)


def arguments(program: Program) -> Mapping[str, NDArray[Any]] | None:
    """An array for each argument; None where they are too large, or share a name."""
    tensors = {a.name: program.tensors[a.tensor] for a in program.arguments if a.tensor is not None}
    if sum(t.partition_bytes for t in tensors.values()) > ARGUMENT_BYTES_MAX:
        return None
    return {name: np.ones(t.shape, t.dtype.numpy_dtype) for name, t in tensors.items()}


class JudgeFuzz:
    """The whole judge on answers of a tracing process that lies."""

    def __init__(self, folder: Path) -> None:
        """Judge row softmax on trn2."""
        self.task: Task = load_softmax(folder)
        self.judge = Judge(target=TARGET)
        self.judge.close()
        self.replay = Replay()
        self.judge._sandbox = self.replay  # type: ignore[assignment]

    def try_reply(self, data: bytes) -> str:
        """The stage of a kernel whose tracing process answers this."""
        try:
            program = decode_reply(data).program
        except StoredError:
            program = None
        is_sound = program is not None and not check_program(program, load_chip(TARGET))
        if program is not None and is_sound and check_work(program, elems_max=ELEMS_MAX):
            return "too much"
        self.replay.data = data
        verdict = self.judge.judge(KERNEL, self.task, root_seed=3)
        assert len(msgspec.json.encode(verdict)) < 100_000
        if verdict.right:
            self.check_right(data)
        return verdict.stage.value

    def check_right(self, data: bytes) -> None:
        """A Program that is right has the reference's values on other inputs too."""
        program = decode_reply(data).program
        assert program is not None
        executable = compile_program(program, load_chip(TARGET))
        for trial in make_trials(self.task, 77)[:4]:
            inputs = trial.inputs(self.task)
            (wanted,) = expected(self.task, inputs).values()
            (found,) = executable.run(inputs).outputs
            if not np.allclose(found, wanted, rtol=ALLOWED, atol=ALLOWED):
                raise WrongVerdictError(trial.family)


def reply_of(data: bytes, mutator: Mutator) -> bytes:
    """An answer that holds a Program's bytes, at times changed itself."""
    tree = {"program": msgspec.msgpack.decode(data), "findings": []}
    if mutator.rng.random() < 0.1:
        finding = msgspec.to_builtins(Diagnostic(code="NK101", what="x"))
        tree = mutator.mutate({**tree, "findings": [finding]}, times=1)
    return encode(tree) or b""


def try_case(rng: np.random.Generator, fuzz: JudgeFuzz | None) -> tuple[str, str]:
    """One mutated Program: its end, and what was done to which."""
    mutator = Mutator(rng, values())
    if fuzz is not None:
        name = mutator.pick(list(shaped_programs()) + ["softmax"] * 8)
    else:
        rows = list(row_programs()) if rng.random() < 0.7 else list(shaped_programs())
        name = mutator.pick(rows)
    data = mutated(mutator, trees()[name])
    about = f"{name}: {'; '.join(mutator.done)}"
    if data is None:
        return "not stored", about
    try:
        if fuzz is None:
            return try_program(data), about
        return fuzz.try_reply(reply_or_bytes(data, mutator)), about
    except BaseException as error:
        error.add_note(about)
        raise


def reply_or_bytes(data: bytes, mutator: Mutator) -> bytes:
    """The answer; the Program's bytes alone where they are no longer msgpack."""
    try:
        return reply_of(data, mutator)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError):
        return data
