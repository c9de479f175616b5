"""Which tasks train, validate and test.

Law: all variants of a graph are in one split, and so are the graphs of one pattern with one set of
operators: what a test asks was not trained on in other sizes, dtypes or order. Within a family the
groups are dealt out in an order that the seed and their own names decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nki_agent.base.seeds import seed_for
from nki_agent.corpus.record import Family, Split

HELD_OUT = {Split.TEST: 0.04, Split.VALIDATION: 0.04}
"""Shares of a family's tasks; the rest trains."""
LARGEST = 0.02
"""Share of a family's tasks from which a group only trains: too much of what is held out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A task as far as its split depends on it."""

    id: str
    family: Family
    pattern: str
    operators: tuple[str, ...]
    graph: str


def assign_splits(tasks: Sequence[Placed], *, root: int) -> dict[str, Split]:
    """The split of each task, by its id."""
    splits: dict[str, Split] = {}
    by_family: dict[Family, list[list[Placed]]] = defaultdict(list)
    for group in _group(tasks):
        by_family[min(group, key=lambda task: task.id).family].append(group)
    for groups in by_family.values():
        groups.sort(key=lambda group: seed_for(root, "split", _name(group)))
        total = sum(map(len, groups))
        left = {split: share * total for split, share in HELD_OUT.items()}
        for group in groups:
            split = _choose(len(group), left, total)
            if split in left:
                left[split] -= len(group)
            splits |= {task.id: split for task in group}
    return splits


def _choose(size: int, left: Mapping[Split, float], total: int) -> Split:
    """The held-out split that has the most room, where the group takes no more than there is."""
    if size > max(1.0, LARGEST * total):
        return Split.TRAIN
    split = max(left, key=lambda name: left[name])
    return split if left[split] >= size / 2 else Split.TRAIN


def _name(group: Iterable[Placed]) -> str:
    return min(task.graph for task in group)


def _group(tasks: Sequence[Placed]) -> list[list[Placed]]:
    """Tasks that are joined by a graph, or by a pattern and its operators."""
    ties = _Ties()
    for task in tasks:
        for tie in _list_ties(task):
            ties.join(task.id, tie)
    groups: dict[str, list[Placed]] = defaultdict(list)
    for task in sorted(tasks, key=lambda task: task.id):
        groups[ties.find(task.id)].append(task)
    return list(groups.values())


def _list_ties(task: Placed) -> Iterator[str]:
    yield f"graph {task.graph}"
    yield f"pattern {task.pattern}: {' '.join(sorted(set(task.operators)))}"


class _Ties:
    """Sets of names, joined two at a time."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def find(self, name: str) -> str:
        """The name that stands for its set."""
        root = name
        while (parent := self._parents.get(root, root)) != root:
            root = parent
        while (parent := self._parents.get(name, root)) != root:
            self._parents[name], name = root, parent
        return root

    def join(self, one: str, other: str) -> None:
        """Make one set of two."""
        left, right = self.find(one), self.find(other)
        self._parents[max(left, right)] = min(left, right)
