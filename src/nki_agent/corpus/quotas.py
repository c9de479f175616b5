"""Chooses the tasks of the corpus from those that are fit, so that nothing dominates.

Law: the choice depends on the candidates and the root seed, not on the order in which they come.
Each kind of bound has at least its share, each family at least its minimum and at most its maximum,
as far as there are so many; levels come near their shares.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from nki_agent.base.seeds import seed_for
from nki_agent.corpus.candidate import Passed
from nki_agent.corpus.record import BoundKind, Family, Reason, Rejection

TOTAL = 6_000
BOUND_SHARE = 0.26
"""Each kind of bound has at least this share: a quarter, and some to spare."""
FAMILY_MOST = 0.14
"""No family has more than this share."""
PATTERN_MOST = 0.05
FAMILY_LEAST: Mapping[Family, float] = MappingProxyType(
    {
        Family.ELEMENTWISE: 0.04,
        Family.REDUCTION: 0.03,
        Family.NORM: 0.03,
        Family.SOFTMAX: 0.02,
        Family.MATMUL: 0.06,
        Family.ATTENTION: 0.06,
        Family.CONV: 0.05,
        Family.POOL: 0.015,
        Family.LAYOUT: 0.05,
        Family.GATHER: 0.03,
        Family.SORT: 0.015,
        Family.SCAN: 0.03,
        Family.LOSS: 0.03,
        Family.BACKWARD: 0.06,
        Family.OPTIMIZER: 0.02,
        Family.QUANTISED: 0.03,
        Family.BLOCK: 0.05,
    }
)
LEVEL_MOST: Mapping[int, float] = MappingProxyType({1: 0.22, 2: 0.64, 3: 0.28})
RANK_LEAST: Mapping[int, float] = MappingProxyType({4: 0.15, 5: 0.05})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The tasks that are in, by their ids' order, and those that are left out."""

    chosen: tuple[Passed, ...]
    rejections: tuple[Rejection, ...]


@dataclass(slots=True, kw_only=True)
class _Shelf:
    """What is chosen so far, counted by everything that has a limit."""

    total: int
    least: Mapping[BoundKind, int]
    """Places that are kept for each kind of bound."""
    chosen: dict[str, Passed]
    counts: Counter[tuple[str, str | int]]
    """By what is counted and its name: a family and a bound may have the same name."""

    def has_room(self, task: Passed) -> str:
        """The limit that the task would break, or nothing."""
        if len(self.chosen) >= self.total:
            return f"the corpus has its {self.total} tasks"
        candidate = task.candidate
        limits = (
            ("family", candidate.family, FAMILY_MOST),
            ("pattern", candidate.pattern, PATTERN_MOST),
            ("level", candidate.level, LEVEL_MOST[candidate.level]),
        )
        for what, name, share in limits:
            most = places(share, self.total)
            if self.counts[what, name] >= most:
                return f"the {what} {name} has its {most} tasks"
        others = sum(
            max(0, self.least[kind] - self.counts["bound", kind])
            for kind in BoundKind
            if kind is not task.bound
        )
        if len(self.chosen) + others >= self.total:
            return f"the places left are for other bounds than {task.bound}"
        return ""

    def take(self, task: Passed) -> None:
        """Put it in."""
        self.chosen[task.candidate.id] = task
        candidate = task.candidate
        self.counts.update(
            [
                ("family", candidate.family),
                ("pattern", candidate.pattern),
                ("level", candidate.level),
                ("bound", task.bound),
                ("rank", task.rank),
            ]
        )


def places(share: float, total: int) -> int:
    """The tasks that a share of all is; a product that is whole but for its last bits is whole.

    >>> places(0.14, 400)
    56
    """
    return math.ceil(round(share * total, 6))


def choose(passed: Iterable[Passed], *, root: int, total: int = TOTAL) -> Choice:
    """Take up to `total` tasks: first what fills each minimum, then whatever still has room."""
    tasks = sorted(passed, key=lambda t: (seed_for(root, "quota", t.candidate.id), t.candidate.id))
    there = Counter(t.bound for t in tasks)
    least = {kind: min(places(BOUND_SHARE, total), there[kind]) for kind in BoundKind}
    shelf = _Shelf(total=total, least=least, chosen={}, counts=Counter())
    for family, share in FAMILY_LEAST.items():
        _fill(
            shelf, [t for t in tasks if t.candidate.family is family], share, key=("family", family)
        )
    for rank, share in RANK_LEAST.items():
        _fill(shelf, [t for t in tasks if t.rank == rank], share, key=("rank", rank))
    for kind in BoundKind:
        _fill(shelf, [t for t in tasks if t.bound is kind], BOUND_SHARE, key=("bound", kind))
    reasons: dict[str, str] = {}
    for task in tasks:
        if task.candidate.id in shelf.chosen:
            continue
        if reason := shelf.has_room(task):
            reasons[task.candidate.id] = reason
        else:
            shelf.take(task)
    return Choice(
        chosen=tuple(shelf.chosen[name] for name in sorted(shelf.chosen)),
        rejections=tuple(
            _reject(task, reasons[task.candidate.id])
            for task in tasks
            if task.candidate.id in reasons
        ),
    )


def _fill(
    shelf: _Shelf, tasks: Sequence[Passed], share: float, *, key: tuple[str, str | int]
) -> None:
    """Take of these tasks, all of which count under `key`, until it has its share."""
    least = places(share, shelf.total)
    for task in tasks:
        if shelf.counts[key] >= least:
            return
        if task.candidate.id not in shelf.chosen and not shelf.has_room(task):
            shelf.take(task)


def _reject(task: Passed, reason: str) -> Rejection:
    candidate = task.candidate
    return Rejection(
        id=candidate.id,
        family=candidate.family,
        pattern=candidate.pattern,
        reason=Reason.QUOTA,
        detail=reason,
    )
