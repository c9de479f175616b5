"""How many tasks of a corpus's split a model solves, with intervals, and by distance to training.

Law: a share is of the tasks that were asked for; one whose verdict the machine lost is asked again,
and where it stays lost the evaluation fails instead of counting it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from nki_agent.base.errors import MachineError
from nki_agent.base.seeds import rng_for, seed_for
from nki_agent.bench.intervals import Interval, wilson
from nki_agent.corpus.record import CorpusTask
from nki_agent.train.attempts import Attempted, Workbench
from nki_agent.train.shelf import Shelf
from nki_agent.verify.verdict import Stage

LOST_MAX = 2
"""Times that an attempt which the machine lost is made again."""
AT_ONCE = 64
"""Episodes that are drawn together."""


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """How far a model came with one task."""

    task: str
    family: str
    level: int
    stage: Stage | None
    turns: int

    @property
    def is_right(self) -> bool:
        """Whether it was solved."""
        return self.stage is Stage.RIGHT

    @property
    def is_compiled(self) -> bool:
        """Whether its kernel could be run."""
        return self.stage in (Stage.WRONG, Stage.RIGHT)


class Tried(Try, frozen=True, kw_only=True):
    """One task of an evaluation, with what the model wrote."""

    tokens: int
    kernel: str | None
    percent_of_bound: float | None


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """Of a group of tasks."""

    tasks: int
    right: Interval
    compiled: Interval


def choose(rows: Sequence[CorpusTask], number: int, *, seed: int) -> list[CorpusTask]:
    """The tasks of an evaluation: the same for every model."""
    ordered = sorted(rows, key=lambda row: row.id)
    places = rng_for(seed, "evaluation").permutation(len(ordered))[:number]
    return [ordered[int(place)] for place in places]


def evaluate(
    rows: Sequence[CorpusTask], bench: Workbench, shelf: Shelf, *, seed: int
) -> Iterator[Tried]:
    """Each task once, as they are done.

    Raises:
        MachineError: an attempt was lost again and again.
    """
    for start in range(0, len(rows), AT_ONCE):
        missing = shelf.take_all(rows[start : start + AT_ONCE])
        reason = ""
        for time in range(1 + LOST_MAX):
            if not missing:
                break
            found = bench.attempt(missing, root_seed=seed_for(seed, "evaluation", start, time))
            yield from (_note(a) for a in found if a.outcome is not None)
            missing = [a.entry for a in found if a.outcome is None]
            reason = next((a.loss for a in found if a.outcome is None), "")
        if missing:
            raise MachineError(f"{len(missing)} attempts were lost: {reason}")


def sum_up(tried: Sequence[Tried]) -> Shares:
    """The shares of a group, with 95 % intervals."""
    return Shares(
        tasks=len(tried),
        right=wilson(sum(t.is_right for t in tried), len(tried)),
        compiled=wilson(sum(t.is_compiled for t in tried), len(tried)),
    )


def _note(attempted: Attempted) -> Tried:
    verdict = None if attempted.outcome is None else attempted.outcome.verdict
    row = attempted.entry.row
    return Tried(
        task=row.id,
        family=row.family.value,
        level=row.level,
        stage=None if verdict is None else verdict.stage,
        turns=attempted.turns,
        tokens=len(attempted.record.ids),
        kernel=attempted.kernel,
        percent_of_bound=None if verdict is None else verdict.percent_of_bound,
    )
