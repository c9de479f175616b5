"""What is tested was not trained on in another dress."""

from __future__ import annotations

from collections import Counter, defaultdict

from nki_agent.corpus.record import Family, Split
from nki_agent.corpus.splits import Placed, assign_splits

FAMILIES = (Family.NORM, Family.MATMUL)


def make(number: int, *, per_graph: int = 3) -> list[Placed]:
    return [
        Placed(
            id=f"c-{i}",
            family=FAMILIES[i % 2],
            pattern=f"p{i % 7}",
            operators=(f"o{i // per_graph}",),
            graph=f"g{i // per_graph}",
        )
        for i in range(number)
    ]


def test_graphs_never_straddle() -> None:
    tasks = make(600)
    splits = assign_splits(tasks, root=0)
    by_graph: dict[str, set[Split]] = defaultdict(set)
    for task in tasks:
        by_graph[task.graph].add(splits[task.id])
    assert all(len(found) == 1 for found in by_graph.values())


def test_one_pattern_with_the_same_operators_never_straddles() -> None:
    tasks = [
        Placed(id=f"c-{i}", family=Family.NORM, pattern="p", operators=ops, graph=f"g{i}")
        for i, ops in enumerate([("a", "b"), ("b", "a"), ("b", "a", "b")] * 9)
    ]
    assert len(set(assign_splits(tasks, root=0).values())) == 1


def test_each_family_has_about_its_share_in_each_split() -> None:
    tasks = make(1200)
    splits = assign_splits(tasks, root=0)
    for family in FAMILIES:
        counts = Counter(splits[task.id] for task in tasks if task.family is family)
        total = counts.total()
        assert 0.02 < counts[Split.TEST] / total < 0.07
        assert 0.02 < counts[Split.VALIDATION] / total < 0.07


def test_splits_depend_on_the_seed_and_not_on_the_order() -> None:
    tasks = make(300)
    forward = assign_splits(tasks, root=0)
    assert assign_splits(tasks[::-1], root=0) == forward
    assert assign_splits(tasks, root=1) != forward
