"""Which tasks of a corpus train, and which are held out.

Law: tasks of one graph are on one side. The corpus's own test and validation tasks never train. It
has few single operators among them, so graphs of its training tasks are moved over, by their hash,
until there are enough to measure with; no task is chosen by whether it can be solved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from nki_agent.base.hashes import hash_text
from nki_agent.corpus.record import CorpusTask, Family, Split
from nki_agent.corpus.stored import TASKS

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many tasks there are at most."""

    train_fused: int
    held_out_single: int
    held_out_fused: int


def choose_tasks(rows: Sequence[CorpusTask], counts: Counts) -> list[CorpusTask]:
    """The tasks of the experiment: split `train` or `test`, in the order of their ids."""
    ordered = sorted(rows, key=lambda row: hash_text(row.id))
    single = [row for row in ordered if row.level == SINGLE]
    fused = [row for row in ordered if row.level == FUSED and row.family in FUSED_FAMILIES]
    held_out = _hold_out(single, counts.held_out_single)
    train = [row for row in single if row.graph not in held_out]
    train += [r for r in fused if r.split is Split.TRAIN and r.graph not in held_out][
        : counts.train_fused
    ]
    test = [row for row in single if row.graph in held_out]
    test += [row for row in fused if row.split is Split.TEST][: counts.held_out_fused]
    chosen = [*_set_split(train, Split.TRAIN), *_set_split(test, Split.TEST)]
    return sorted(chosen, key=lambda row: row.id)


def write_tasks(rows: Iterable[CorpusTask], folder: Path) -> None:
    """A corpus folder that `nki-agent data` and `nki-agent train` take."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{TASKS}.part"
    part.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    part.replace(folder / TASKS)


def _hold_out(single: Sequence[CorpusTask], number: int) -> set[str]:
    """Graphs: those that the corpus holds out itself, then others by their hash."""
    held_out = {row.graph for row in single if row.split is not Split.TRAIN}
    count = sum(row.graph in held_out for row in single)
    graphs = sorted({row.graph for row in single} - held_out)
    for graph in graphs:
        size = sum(row.graph == graph for row in single)
        if count + size <= number:
            held_out.add(graph)
            count += size
    return held_out


def _set_split(rows: Iterable[CorpusTask], split: Split) -> list[CorpusTask]:
    return [msgspec.structs.replace(row, split=split) for row in rows]
