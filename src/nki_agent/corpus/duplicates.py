"""Keeps one of what is the same: exact, structural and near duplicates.

Law: of two that are the same the first is kept, in an order that the sources' hashes decide and
nobody else. One graph has at most `VARIANTS` tasks, which differ in dtypes or in the regime of
their sizes. Code of another graph is a near duplicate from `NEAR` of shared pieces on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nki_agent.corpus.fingerprint import Fingerprint
from nki_agent.corpus.likeness import Likeness, count_pieces
from nki_agent.corpus.record import Family, Reason, Rejection

VARIANTS = 3
NEAR = 0.95
"""Share of pieces: one other word in code of 200 parts; in shorter code it is another task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A task with what it is compared by."""

    id: str
    sha256: str
    family: Family
    pattern: str
    print: Fingerprint


def drop_duplicates(entries: Iterable[Entry]) -> tuple[list[Entry], list[Rejection]]:
    """Those that stay, and a rejection for each of the others; both in the deciding order."""
    ordered = sorted(entries, key=lambda entry: (entry.sha256, entry.id))
    known = _Known(ordered)
    kept: list[Entry] = []
    rejections: list[Rejection] = []
    for entry in ordered:
        found = known.find(entry)
        if found is None:
            known.add(entry)
            kept.append(entry)
        else:
            reason, detail = found
            rejections.append(reject(entry, reason, detail))
    return kept, rejections


def reject(entry: Entry, reason: Reason, detail: str) -> Rejection:
    """The row of a task that is turned away."""
    return Rejection(
        id=entry.id, family=entry.family, pattern=entry.pattern, reason=reason, detail=detail
    )


class _Known:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._exact: dict[str, str] = {}
        self._typed: dict[str, str] = {}
        self._variants: dict[str, list[str]] = defaultdict(list)
        self._near = Likeness(NEAR, counts=count_pieces(entry.print.pieces for entry in entries))

    def find(self, entry: Entry) -> tuple[Reason, str] | None:
        own = entry.print
        if (name := self._exact.get(own.exact)) is not None:
            return Reason.EXACT_DUPLICATE, f"the text of {name}"
        variants: list[str] = []
        if own.graph is not None:
            if (name := self._typed.get(own.graph.typed)) is not None:
                return Reason.STRUCTURAL_DUPLICATE, f"the graph, dtypes and regime of {name}"
            variants = self._variants[own.graph.hash]
            if len(variants) >= VARIANTS:
                listed = ", ".join(variants)
                return Reason.STRUCTURAL_DUPLICATE, f"the graph has {VARIANTS} tasks: {listed}"
        if (near := self._near.find(own.pieces, but=frozenset(variants))) is not None:
            return Reason.NEAR_DUPLICATE, f"{near[1]:.2f} of the pieces are those of {near[0]}"
        return None

    def add(self, entry: Entry) -> None:
        own = entry.print
        self._exact[own.exact] = entry.id
        if own.graph is not None:
            self._typed[own.graph.typed] = entry.id
            self._variants[own.graph.hash].append(entry.id)
        self._near.add(entry.id, own.pieces)
