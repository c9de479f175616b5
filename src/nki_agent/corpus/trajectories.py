"""Trajectories of a corpus: what was made is logged, then the rows for training are chosen from it.

Law: a kind of a task is made once; the log resumes. What is published is chosen anew each time from
the whole log, in the order of the tasks, so it does not depend on how often the work was stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from nki_agent.base.linefile import LineFile
from nki_agent.corpus.chat import SCHEMA, Kind
from nki_agent.corpus.making import ENTRY, MADE_KINDS, Made, MakeOrder
from nki_agent.corpus.record import SCHEMA as ROW_SCHEMA
from nki_agent.corpus.record import CorpusTask, Solution
from nki_agent.corpus.solving import describe_failure
from nki_agent.corpus.stored import SOLUTIONS, read_solutions, require_own
from nki_agent.corpus.workers import Crew, Failure

LOG: Final = "episodes.jsonl"
REPAIRS: Final = 2
"""Repair episodes for each task."""

Key = tuple[str, Kind]


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far the work is; given to who watches after each task."""

    total: int
    done: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    """By kind, in the whole log."""
    skipped: Counter[str] = field(default_factory=Counter)
    """`kind: why`, in the whole log."""
    failed: dict[str, str] = field(default_factory=dict)

    def note(self, made: Made) -> None:
        """Count what was made."""
        self.rows[made.kind.value] += len(made.rows)
        for why, count in made.skipped.items():
            self.skipped[f"{made.kind.value}: {why}"] += count


Watch = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """One run over the solved tasks of a corpus."""

    folder: Path
    tasks: Sequence[CorpusTask]
    root_seed: int
    workers: int
    kinds: tuple[Kind, ...] = MADE_KINDS
    repairs: int = REPAIRS
    limit: int | None = None
    """Solved tasks at most, the first ones."""
    allow_unsandboxed: bool = False

    def carry_out(self, *, watch: Watch, warn: Callable[[str], object]) -> Progress:
        """Make what is not in the log yet.

        Raises:
            UsageError: The files of the folder are of another corpus, or another run writes them.
            MachineError: The disk is full or fails; the files are whole.
        """
        solutions = find_first(read_solutions(self.folder, self.tasks).good)
        wanted = [task for task in self.tasks if task.id in solutions][: self.limit]
        known: dict[Key, None] = {}
        progress = Progress(total=len(wanted))

        def note(made: Made, place: int) -> None:
            del place
            require_own((made,), hashes, path=self.folder / LOG)
            if not made.source:
                known[made.task, made.kind] = None
            progress.note(made)

        hashes = {task.id: task.sha256 for task in self.tasks}
        with (
            LineFile(self.folder / LOG, Made, schema=SCHEMA, note=note, warn=warn) as log,
            Proofs(self.folder, warn=warn) as proofs,
        ):
            left = {
                task.id: kinds
                for task in wanted
                if (kinds := tuple(k for k in self.kinds if (task.id, k) not in known))
            }
            orders = [
                self._order(task, solutions[task.id], left[task.id])
                for task in wanted
                if task.id in left
            ]
            progress.done = len(wanted) - len(left)
            for order, answer in zip(orders, _work(orders, self.workers), strict=True):
                if isinstance(answer, Failure):
                    progress.failed[order.row.id] = describe_failure(answer)
                else:
                    for made in answer:
                        # Proofs first: no row is in the log whose kernel is in no file.
                        proofs.add(made.proofs)
                        log.append(made)
                        progress.note(made)
                progress.done += 1
                watch(progress)
        return progress

    def _order(self, task: CorpusTask, solution: Solution, kinds: tuple[Kind, ...]) -> MakeOrder:
        return MakeOrder(
            row=task,
            solution=solution,
            kinds=kinds,
            root_seed=self.root_seed,
            repairs=self.repairs,
            allow_unsandboxed=self.allow_unsandboxed,
        )


class Proofs:
    """The solutions of a folder, to which kernels are added that are not there yet."""

    def __init__(self, folder: Path, *, warn: Callable[[str], object]) -> None:
        """Open the file and read which kernels it has."""
        self._known: set[tuple[str, str]] = set()
        self._file = LineFile(
            folder / SOLUTIONS, Solution, schema=ROW_SCHEMA, note=self._note, warn=warn
        )

    def __enter__(self) -> Proofs:
        """Itself, ready."""
        return self

    def __exit__(self, *rest: object) -> None:
        """Close the file."""
        self._file.close()

    def add(self, found: Sequence[Solution]) -> None:
        """Write those that are new."""
        for solution in found:
            if (solution.task, solution.kernel_sha256) not in self._known:
                self._note(solution, self._file.append(solution))

    def _note(self, solution: Solution, place: int) -> None:
        del place
        self._known.add((solution.task, solution.kernel_sha256))


def find_first(solutions: Sequence[Solution]) -> Mapping[str, Solution]:
    """The first solution of each task: the author's own, before what was made of it."""
    found: dict[str, Solution] = {}
    for solution in solutions:
        found.setdefault(solution.task, solution)
    return found


def _work(orders: Sequence[MakeOrder], workers: int) -> Iterator[list[Made] | Failure]:
    crew = Crew(entry=ENTRY, workers=workers, seconds=900.0)
    decoder = msgspec.msgpack.Decoder(list[Made])
    for answer in crew.work(map(msgspec.msgpack.encode, orders)):
        yield decoder.decode(answer) if isinstance(answer, bytes) else answer
