"""Verified solutions: the built-in author over every task of a corpus.

Law: a solution is what the judge called right, at the seed that its row names. A task that is
solved, or that the author of this version can't write, is not tried again; one that the machine
failed is. Rows are in the order of the tasks, whatever the number of processes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

import nki_agent
from nki_agent.base.diagnostic import Diagnostic, Severity, clean
from nki_agent.base.hashes import hash_text
from nki_agent.base.linefile import LineFile
from nki_agent.base.seeds import seed_for
from nki_agent.builtin.author import FULL_MEMORY, REPAIRS
from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.corpus.desk import Desk
from nki_agent.corpus.record import SCHEMA, CorpusTask, Solution, Unsolved
from nki_agent.corpus.stored import SOLUTIONS, UNSOLVED, read_solutions, require_own
from nki_agent.corpus.workers import Answerer, Crew, Failure
from nki_agent.farm.job import Faulted, Lost, Unusable
from nki_agent.program.records import Dialect
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Verdict

AUTHOR: Final = "builtin"
ENTRY: Final = "nki_agent.corpus.solving:make_solver"
REASON_CHARACTERS: Final = 300
_NUMBERS = re.compile(r"[\[(]?\b\d+(?:, \d+)*\b[\])]?")


class SolveOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One task to be solved."""

    row: CorpusTask
    target: Target
    root_seed: int
    allow_unsandboxed: bool = False


class Solved(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it; one of both is there."""

    solution: Solution | None = None
    unsolved: Unsolved | None = None


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far the work is; given to who watches after each task."""

    total: int
    done: int = 0
    solved: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why tasks are unsolved: the author's node and reason."""
    failed: dict[str, str] = field(default_factory=dict)
    """Task → what of the machine's, or of ours, failed."""


Watch = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solving:
    """One run of the author over tasks."""

    folder: Path
    tasks: Sequence[CorpusTask]
    target: Target
    root_seed: int
    workers: int
    limit: int | None = None
    """Tasks at most, the first ones."""
    allow_unsandboxed: bool = False

    def carry_out(self, *, watch: Watch, warn: Callable[[str], object]) -> Progress:
        """Solve what is not solved yet; every row is on disk before the next one is waited for.

        Raises:
            UsageError: The files of the folder are of another corpus, or another run writes them.
            MachineError: The disk is full or fails; the files are whole.
        """
        wanted = self.tasks[: self.limit]
        hashes = {task.id: task.sha256 for task in self.tasks}
        read_solutions(self.folder, self.tasks)
        done: dict[str, bool] = {}
        old: list[Unsolved] = []
        reasons: Counter[str] = Counter()

        def note_solution(row: Solution, place: int) -> None:
            del place
            if row.author == AUTHOR and row.target == self.target.value:
                done[row.task] = True

        def note_unsolved(row: Unsolved, place: int) -> None:
            del place
            old.append(row)
            if row.tool_version == nki_agent.__version__ and row.target == self.target.value:
                done.setdefault(row.task, False)
                reasons[describe(row)] += 1

        with (
            LineFile(
                self.folder / SOLUTIONS, Solution, schema=SCHEMA, note=note_solution, warn=warn
            ) as solutions,
            LineFile(
                self.folder / UNSOLVED, Unsolved, schema=SCHEMA, note=note_unsolved, warn=warn
            ) as unsolved,
        ):
            require_own(old, hashes, path=self.folder / UNSOLVED)
            left = [task for task in wanted if task.id not in done]
            known = [done[task.id] for task in wanted if task.id in done]
            progress = Progress(
                total=len(wanted),
                done=len(known),
                solved=sum(known),
                reasons=reasons,
            )
            for row, answer in zip(left, self._work(left), strict=True):
                if isinstance(answer, Failure):
                    progress.failed[row.id] = describe_failure(answer)
                elif answer.solution is not None:
                    solutions.append(answer.solution)
                    progress.solved += 1
                elif answer.unsolved is not None:
                    unsolved.append(answer.unsolved)
                    progress.reasons[describe(answer.unsolved)] += 1
                progress.done += 1
                watch(progress)
        return progress

    def _work(self, rows: Sequence[CorpusTask]) -> Iterator[Solved | Failure]:
        crew = Crew(entry=ENTRY, workers=self.workers)
        for answer in crew.work(msgspec.msgpack.encode(self._order(row)) for row in rows):
            yield (
                msgspec.msgpack.decode(answer, type=Solved) if isinstance(answer, bytes) else answer
            )

    def _order(self, row: CorpusTask) -> SolveOrder:
        return SolveOrder(
            row=row,
            target=self.target,
            root_seed=self.root_seed,
            allow_unsandboxed=self.allow_unsandboxed,
        )


def describe(row: Unsolved) -> str:
    """The reason as it is counted: without its numbers, which are the task's.

    >>> _NUMBERS.sub("…", "`dst` [3, 57] has 128 rows")
    '`dst` … has … rows'
    """
    return f"{row.node}: {_NUMBERS.sub('…', row.reason)}"


def describe_failure(failure: Failure) -> str:
    """What went wrong, in a line."""
    match failure:
        case Lost(reason=text) | Unusable(message=text):
            return " ".join(text.split())
        case Faulted(trace=text):
            lines = text.strip().splitlines()
            return f"a bug of nki-agent: {lines[-1]}" if lines else "a bug of nki-agent"


def make_solver() -> Answerer:
    """What a process of the crew does."""
    desks: dict[bool, Desk] = {}

    def answer(data: bytes) -> bytes:
        order = msgspec.msgpack.decode(data, type=SolveOrder)
        desk = desks.setdefault(
            order.allow_unsandboxed, Desk(allow_unsandboxed=order.allow_unsandboxed)
        )
        return msgspec.msgpack.encode(solve_one(order, desk))

    return answer


def solve_one(order: SolveOrder, desk: Desk) -> Solved:
    """Let the author write a kernel for one task, in the widest tiling that fits, and judge it.

    A kernel that is right and does not fit at the perf shapes is kept only where none does.
    """
    row, target = order.row, order.target
    task, judge = desk.open(row), desk.judge_for(order.target)
    seed = seed_for(order.root_seed, row.id, "solution")
    kept: Solution | None = None
    seen: set[str] = set()
    for choices in REPAIRS:
        try:
            source = write_kernel(task, target, choices=choices)
        except UnsupportedError as error:
            return kept_or(kept, _refuse(order, error.node, error.why))
        if source in seen:
            continue
        seen.add(source)
        verdict = judge.judge(Kernel.from_text(source), task, root_seed=seed)
        if verdict.right:
            look = look_at_perf(judge, source, task)
            solution = make_solution(row, source, verdict, author=AUTHOR, look=look)
            if look is None or not _is_full(look.diagnostics):
                return Solved(solution=solution)
            kept = kept or solution
        elif not _is_full(verdict.diagnostics):
            return kept_or(kept, _refuse(order, verdict.stage.value, _first_error(verdict)))
    return kept_or(kept, _refuse(order, "unfit", "no tiling fits SBUF"))


def kept_or(kept: Solution | None, unsolved: Unsolved) -> Solved:
    """What was found, else why nothing was."""
    return Solved(unsolved=unsolved) if kept is None else Solved(solution=kept)


def look_at_perf(judge: Judge, source: str, task: Task) -> Look | None:
    """The kernel at the perf shapes without data; None where the task has none of its own."""
    return judge.look(Kernel.from_text(source), task.perf) if task.has_perf else None


def make_solution(
    row: CorpusTask, source: str, verdict: Verdict, *, author: str, look: Look | None
) -> Solution:
    """The row of a kernel that was judged right."""
    assert verdict.latency_ns is not None
    assert verdict.percent_of_bound is not None
    summary = None if look is None or look.stage is not None else look.summary
    return Solution(
        task=row.id,
        task_hash=verdict.hashes.task,
        task_sha256=row.sha256,
        kernel=source,
        kernel_sha256=hash_text(source),
        author=author,
        dialect=Dialect.CURRENT.value,
        target=verdict.target,
        latency_ns=verdict.latency_ns,
        percent_of_bound=verdict.percent_of_bound,
        perf_latency_ns=None if summary is None else summary.latency_ns,
        perf_percent_of_bound=None if summary is None else summary.percent_of_bound,
        root_seed=str(verdict.root_seed),
        tool_version=verdict.tool_version,
    )


def _is_full(diagnostics: Sequence[Diagnostic]) -> bool:
    return any(d.code in FULL_MEMORY for d in diagnostics)


def _first_error(verdict: Verdict) -> str:
    errors = [d for d in verdict.diagnostics if d.severity is Severity.ERROR]
    return f"{errors[0].code} {errors[0].what}" if errors else "no error is named"


def _refuse(order: SolveOrder, node: str, reason: str) -> Unsolved:
    return Unsolved(
        task=order.row.id,
        task_sha256=order.row.sha256,
        author=AUTHOR,
        dialect=Dialect.CURRENT.value,
        target=order.target.value,
        node=node,
        reason=clean(" ".join(reason.split()))[:REASON_CHARACTERS],
        tool_version=nki_agent.__version__,
    )
