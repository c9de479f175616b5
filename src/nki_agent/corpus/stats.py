"""What a corpus holds, counted.

Law: figures come from the rows alone, so that they can be made again from any folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any, Final

import msgspec

from nki_agent.corpus.record import CorpusTask, Reason, Rejection

EXAMPLES: Final = 2
"""Rejections that are shown of each reason."""
BOUND_EDGES: Final = (3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6)
"""Where classes of bounds end, in ns."""
NS_PER_US: Final = 1e3


class Turned(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates that were turned away for one reason."""

    reason: Reason
    count: int
    examples: tuple[Rejection, ...]


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of tasks by what they are, each from the most to the least."""

    tasks: int
    graphs: int
    patterns: int
    operators_seen: int
    characters_median: int
    bound_us_median: float
    by_split: dict[str, int]
    by_family: dict[str, int]
    by_bound: dict[str, int]
    by_level: dict[str, int]
    by_rank: dict[str, int]
    by_dtype: dict[str, int]
    by_tolerance: dict[str, int]
    by_origin: dict[str, int]
    by_bound_us: dict[str, int]
    by_operators: dict[str, int]
    """How many operators a task has."""
    by_operator: dict[str, int]
    by_pattern: dict[str, int]
    rejected: tuple[Turned, ...] = ()


def count_tasks(tasks: Sequence[CorpusTask], rejections: Iterable[Rejection] = ()) -> Stats:
    """The figures of a corpus and of what did not come into it."""
    operators = Counter(name for task in tasks for name in set(task.operators))
    return Stats(
        tasks=len(tasks),
        graphs=len({task.graph for task in tasks}),
        patterns=len({task.pattern for task in tasks}),
        operators_seen=len(operators),
        characters_median=round(median([len(t.source) for t in tasks] or [0])),
        bound_us_median=round(median([t.bound_ns for t in tasks] or [0.0]) / NS_PER_US, 1),
        by_split=_count(tasks, lambda t: t.split.value),
        by_family=_count(tasks, lambda t: t.family.value),
        by_bound=_count(tasks, lambda t: t.bound.value),
        by_level=_in_order(_count(tasks, lambda t: str(t.level))),
        by_rank=_in_order(_count(tasks, lambda t: str(t.rank))),
        by_dtype=_count(tasks, lambda t: t.dtype),
        by_tolerance=_count(tasks, lambda t: t.tolerance),
        by_origin=_count(tasks, lambda t: t.origin.value),
        by_bound_us=_count_bounds(tasks),
        by_operators=_in_order(_count(tasks, lambda t: str(len(t.operators)))),
        by_operator=_sorted(operators),
        by_pattern=_count(tasks, lambda t: t.pattern),
        rejected=_count_rejections(rejections),
    )


def _count(tasks: Iterable[CorpusTask], key: Callable[[CorpusTask], str]) -> dict[str, int]:
    return _sorted(Counter(map(key, tasks)))


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _in_order(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: int(pair[0])))


def _count_bounds(tasks: Iterable[CorpusTask]) -> dict[str, int]:
    counts: Counter[float] = Counter(
        next((edge for edge in BOUND_EDGES if task.bound_ns <= edge), float("inf"))
        for task in tasks
    )
    return {_name_edge(edge): counts[edge] for edge in sorted(counts)}


def _name_edge(edge: Any) -> str:
    if edge == float("inf"):
        return f"over {BOUND_EDGES[-1] / NS_PER_US:,.0f} µs"
    return f"to {edge / NS_PER_US:,.0f} µs"


def _count_rejections(rejections: Iterable[Rejection]) -> tuple[Turned, ...]:
    by_reason: dict[Reason, list[Rejection]] = {reason: [] for reason in Reason}
    for rejection in rejections:
        by_reason[rejection.reason].append(rejection)
    return tuple(
        Turned(reason=reason, count=len(rows), examples=tuple(rows[:EXAMPLES]))
        for reason, rows in by_reason.items()
        if rows
    )
