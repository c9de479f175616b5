"""How far the tasks of a test are from those that train.

Law: the distance of a graph is to the nearest of the others: 1 less the share of their parts that
both have. It is what results are reported by, so that what was nearly trained on can be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nki_agent.corpus.canonical import Graph
from nki_agent.corpus.record import CorpusTask, Split

QUANTILES: Final = {"lowest": 0.0, "quarter": 0.25, "median": 0.5, "three quarters": 0.75}
DIGITS: Final = 4


def measure_distances(
    tasks: Sequence[CorpusTask], graphs: Mapping[str, Graph], *, of: Split = Split.TEST
) -> dict[str, float]:
    """For each task of a split, by its id, the distance to the nearest training task."""
    train = {task.graph: _parts(graphs[task.id]) for task in tasks if task.split is Split.TRAIN}
    known: dict[str, float] = {}
    for task in tasks:
        if task.split is of and task.graph not in known:
            known[task.graph] = _nearest(_parts(graphs[task.id]), train.values())
    return {task.id: known[task.graph] for task in tasks if task.split is of}


def summarise_distances(
    tasks: Sequence[CorpusTask], graphs: Mapping[str, Graph]
) -> dict[str, float]:
    """Quantiles over the test tasks; nothing where there are none."""
    found = sorted(measure_distances(tasks, graphs).values())
    if not found:
        return {}
    return {name: found[int(share * (len(found) - 1))] for name, share in QUANTILES.items()}


def _parts(graph: Graph) -> frozenset[str]:
    return frozenset(graph.features)


def _nearest(own: frozenset[str], others: Iterable[frozenset[str]]) -> float:
    best = 0.0
    for other in others:
        both = len(own & other)
        if both:
            best = max(best, both / (len(own) + len(other) - both))
    return round(1 - best, DIGITS)
