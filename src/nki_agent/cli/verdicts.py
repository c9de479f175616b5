"""Several kernels for one task: a line for each as its verdict comes, then a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nki_agent.base.counting import count_of
from nki_agent.base.diagnostic import Severity, clean
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.cli.command import ExitCode
from nki_agent.cli.inputs import printable, read_kernel, require_file
from nki_agent.cli.outcome import US_NS, exit_code_of, paint_stage
from nki_agent.cli.screen import Colour, paint, say, show
from nki_agent.cost.summary import format_figure, format_percent
from nki_agent.farm.job import End, Faulted, Job, Judged, Looked, Lost, Unusable
from nki_agent.farm.local import LocalExecutor
from nki_agent.farm.log import ResultLog
from nki_agent.farm.run import run_many
from nki_agent.farm.wire import FarmLimits
from nki_agent.task.declaration import PERF
from nki_agent.task.task import Scope
from nki_agent.verify.verdict import Verdict

NO_PERF = "the task has no perf shapes: `--perf` tries the kernel at its only ones"
WIDEST_STAGE = len("untraceable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What all kernels of one command are judged for."""

    task: Path
    target: Target
    seed: int | None
    scope: Scope
    surface: Surface
    is_task_trusted: bool


def read_jobs(kernels: Sequence[Path], wanted: Wanted) -> list[Job]:
    """A job for each file; all of them are read before the first is judged."""
    require_file(wanted.task, what="task")
    return [
        Job(
            id=printable(path),
            kernel=read_kernel(path),
            task=wanted.task,
            target=wanted.target,
            scope=wanted.scope,
            surface=wanted.surface,
            root_seed=wanted.seed,
            is_task_trusted=wanted.is_task_trusted,
        )
        for path in dict.fromkeys(kernels)
    ]


def judge_many(
    jobs: Sequence[Job],
    *,
    workers: int | None,
    results: Path | None,
    as_json: bool,
    allow_unsandboxed: bool,
) -> ExitCode:
    """Judge them all and print each; the worst exit code."""
    ends: Counter[str] = Counter()
    worst = ExitCode.RIGHT
    notes: set[str] = set()
    with ExitStack() as stack:
        log = None if results is None else stack.enter_context(ResultLog(results, warn=say_note))
        limits = FarmLimits(allow_unsandboxed=allow_unsandboxed)
        executor = stack.enter_context(LocalExecutor(workers=workers, limits=limits))
        for job, end in run_many(jobs, executor, log=log):
            _say_new_notes(end, notes, asks_perf=job.scope is Scope.ALL)
            show(write_json(job, end) if as_json else "\n".join(write_lines(job, end)))
            ends[name_of(end)] += 1
            worst = max(worst, exit_code_of_end(end))
    say(
        f"{count_of(ends.total(), 'kernel')}: "
        + ", ".join(f"{n} {name}" for name, n in ends.most_common())
    )
    return worst


def _say_new_notes(end: End, known: set[str], *, asks_perf: bool) -> None:
    """What was decided while the task was loaded: once, however many workers have loaded it."""
    if isinstance(end, Judged):
        # Perf shapes have a name of their own; a verdict at others, though asked, has none of them.
        lacks_perf = asks_perf and end.verdict.speed_shapes not in {None, PERF}
        for note in (*end.verdict.task_notes, *((NO_PERF,) if lacks_perf else ())):
            if note not in known:
                known.add(note)
                say_note(clean(note))


def say_note(text: str) -> None:
    """A warning of the task or the results file."""
    say(f"note: {text}")


def write_json(job: Job, end: End) -> str:
    """One line: the kernel's file and how it ended."""
    return msgspec.json.encode({"kernel": job.id, "end": end}).decode()


def write_lines(job: Job, end: End) -> Iterator[str]:
    """The outcome and the file, and where it is not right why."""
    name = name_of(end).ljust(WIDEST_STAGE)
    match end:
        case Judged(verdict=verdict):
            name = name.replace(verdict.stage.value, paint_stage(verdict.stage))
            yield f"{name}  {clean(job.id)}{_write_figures(verdict)}"
            errors = [d for d in verdict.diagnostics if d.severity is Severity.ERROR]
            yield from (f"  {line}" for d in errors[:1] for line in str(d).splitlines())
        case Looked():
            yield f"{name}  {clean(job.id)}"
        case Faulted(trace=text) | Lost(reason=text) | Unusable(message=text):
            yield f"{paint(name, Colour.BAD)}  {clean(job.id)}"
            yield from (f"  {clean(line)}" for line in text.splitlines())
            if isinstance(end, Unusable) and end.hint:
                yield f"    hint: {clean(end.hint)}"


def _write_figures(verdict: Verdict) -> str:
    if verdict.latency_ns is None:
        return ""
    figures = f"  {format_figure(verdict.latency_ns / US_NS)} µs"
    if verdict.speed_shapes is not None:
        figures += f" at {clean(verdict.speed_shapes)}"
    if verdict.percent_of_bound is not None:
        figures += f", {format_percent(verdict.percent_of_bound)} % of the bound"
    return figures


def name_of(end: End) -> str:
    """One word for how a job ended."""
    match end:
        case Judged(verdict=verdict):
            return verdict.stage.value
        case Looked():
            return "looked at"
        case Faulted():
            return "faulted"
        case Lost():
            return "lost"
        case Unusable():
            return "unusable"


def exit_code_of_end(end: End) -> ExitCode:
    """The exit code that an end means."""
    match end:
        case Judged(verdict=verdict):
            return exit_code_of(verdict.stage)
        case Looked():
            return ExitCode.RIGHT
        case Faulted() | Lost():
            return ExitCode.FAILURE
        case Unusable():
            return ExitCode.USAGE
