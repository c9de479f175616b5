"""Which tasks of a corpus are taught, which are practised on, and which are held out.

Law: tasks of one graph are on one side, but for some that are held out to see what is known of a
graph that is taught, and are reported apart. The corpus's own test and validation tasks never
train. It has few single operators among them, so graphs of its training tasks are moved over, by
their hash, until there are enough to measure with; none is chosen by whether it can be solved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from nki_agent.base.errors import TaskError
from nki_agent.base.hashes import hash_text
from nki_agent.base.jsonl import encode_lines
from nki_agent.base.seeds import rng_for
from nki_agent.base.writing import write_whole
from nki_agent.corpus.canonical import canonical_graph
from nki_agent.corpus.nodes import GraphError
from nki_agent.corpus.record import CorpusTask, Family, Split
from nki_agent.corpus.stored import TASKS
from nki_agent.train.renumbering import renumber
from nki_agent.train.reranking import rerank

SINGLE: Final = 1
"""The level of tasks with one operator."""
FUSED: Final = 2
"""The level of tasks with several."""
FUSED_FAMILIES: Final = frozenset(Family) - {
    Family.ATTENTION,
    Family.BLOCK,
    Family.CONV,
    Family.POOL,
    Family.SORT,
}
"""Families most of whose fused tasks have a kernel of at most 256 of our tokens."""

PRACTICE_FAMILIES: Final = frozenset(
    {Family.ELEMENTWISE, Family.LAYOUT, Family.NORM, Family.REDUCTION, Family.SOFTMAX}
)
"""Families whose fused tasks have the shortest kernels: what GRPO practises on has no solution that
could be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many tasks there are at most."""

    train_fused: int
    practice_single: int
    practice_fused: int
    held_out_single: int
    held_out_known: int
    held_out_fused: int


def choose_tasks(rows: Sequence[CorpusTask], counts: Counts) -> list[CorpusTask]:
    """The tasks of the experiment, in the order of their ids.

    Split `train` is taught, `validation` is practised on by GRPO and never taught, `test` measures.
    """
    ordered = sorted(rows, key=lambda row: hash_text(row.id))
    single = [row for row in ordered if row.level == SINGLE]
    fused = [row for row in ordered if row.level == FUSED and row.family in FUSED_FAMILIES]
    own = {row.graph for row in single if row.split is not Split.TRAIN}
    held_out = _pick_graphs(single, own, counts.held_out_single)
    others = [row for row in single if row.graph not in held_out]
    practice = _pick_graphs(others, set(), counts.practice_single)
    known = _pick_siblings(
        [row for row in others if row.graph not in practice], counts.held_out_known
    )
    fused_train = [
        row for row in fused if row.split is Split.TRAIN and row.graph not in held_out | practice
    ]
    practised = [row for row in reversed(fused_train) if row.family in PRACTICE_FAMILIES]
    practised = practised[: counts.practice_fused]
    taught = [row for row in fused_train if row not in practised][: counts.train_fused]
    parts = {
        Split.TRAIN: [
            *(row for row in others if row.graph not in practice and row.id not in known),
            *taught,
        ],
        Split.VALIDATION: [
            *(row for row in others if row.graph in practice),
            *practised,
        ],
        Split.TEST: [
            *(row for row in single if row.graph in held_out or row.id in known),
            *[row for row in fused if row.split is Split.TEST][: counts.held_out_fused],
        ],
    }
    chosen = [
        msgspec.structs.replace(row, split=split) for split, part in parts.items() for row in part
    ]
    return sorted(chosen, key=lambda row: row.id)


def vary_tasks(
    rows: Iterable[CorpusTask], *, single: int, fused: int, numbers: int
) -> Iterator[CorpusTask]:
    """Training tasks at other ranks and with other numbers: still of their graph, each once."""
    for row in rows:
        if row.split is not Split.TRAIN:
            continue
        rng = rng_for(0, row.id, "rank")
        is_single = row.level == SINGLE
        others = [rerank(row, rng) for _ in range(single if is_single else fused)]
        tried = [made and (renumber(made, rng) or made) for made in others]
        tried += [renumber(row, rng) for _ in range(numbers if is_single else 0)]
        found = {made.sha256: made for made in tried if made is not None and _is_of_graph(made)}
        yield from {made.id: made for made in found.values() if made.id != row.id}.values()


def _is_of_graph(row: CorpusTask) -> bool:
    try:
        return canonical_graph(row.source).hash == row.graph
    except (TaskError, GraphError):
        # A reference that does not allow this rank after all.
        return False


def write_tasks(rows: Iterable[CorpusTask], folder: Path) -> None:
    """A corpus folder that `nki-agent data` and `nki-agent train` take."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / TASKS, encode_lines(rows))


def find_known(rows: Iterable[CorpusTask]) -> set[str]:
    """The held-out tasks whose graph is taught at other sizes or in another dtype."""
    kept = list(rows)
    taught = {row.graph for row in kept if row.split is Split.TRAIN}
    return {row.id for row in kept if row.split is Split.TEST and row.graph in taught}


def _pick_siblings(rows: Sequence[CorpusTask], number: int) -> set[str]:
    """The first task of each graph that has others, in the order of the graphs' hashes."""
    sizes = Counter(row.graph for row in rows)
    first = {row.graph: row.id for row in reversed(rows)}
    return {first[graph] for graph in sorted(g for g in sizes if sizes[g] > 1)[:number]}


def _pick_graphs(rows: Sequence[CorpusTask], picked: set[str], number: int) -> set[str]:
    """`picked`, and others in the order of their hashes, of at most `number` tasks in all."""
    found = set(picked)
    sizes = Counter(row.graph for row in rows)
    count = sum(sizes[graph] for graph in found)
    for graph in sorted(sizes.keys() - found):
        if count + sizes[graph] <= number:
            found.add(graph)
            count += sizes[graph]
    return found
