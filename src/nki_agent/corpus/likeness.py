"""Finds which of many texts share most of their pieces, without comparing all with all.

Law: exact, not sampled. Two sets whose share is at least the threshold have one of their rarest
pieces in common, so only those are looked up. Pieces are ordered by how many texts hold them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

Pieces = Sequence[int]


class Likeness:
    """Texts by their pieces; asks for one that is like another."""

    def __init__(self, threshold: float, *, counts: Counter[int]) -> None:
        """`counts` says how many texts hold a piece; it decides what is fast, not what is found."""
        self._threshold = threshold
        self._counts = counts
        self._sets: list[tuple[str, frozenset[int]]] = []
        self._index: dict[int, list[int]] = defaultdict(list)

    def add(self, name: str, pieces: Pieces) -> None:
        """Remember a text."""
        place = len(self._sets)
        self._sets.append((name, frozenset(pieces)))
        for piece in self._rarest(pieces):
            self._index[piece].append(place)

    def find(
        self, pieces: Pieces, *, but: frozenset[str] = frozenset()
    ) -> tuple[str, float] | None:
        """The first text that is like this one, and the share; those in `but` are passed over."""
        own = frozenset(pieces)
        for place in sorted({p for piece in self._rarest(pieces) for p in self._index[piece]}):
            name, other = self._sets[place]
            if name in but:
                continue
            both = len(own & other)
            share = both / (len(own) + len(other) - both)
            if share >= self._threshold:
                return name, share
        return None

    def _rarest(self, pieces: Pieces) -> list[int]:
        ordered = sorted(pieces, key=lambda piece: (self._counts[piece], piece))
        return ordered[: len(ordered) - math.ceil(self._threshold * len(ordered)) + 1]


def count_pieces(texts: Iterable[Pieces]) -> Counter[int]:
    """How many texts hold each piece."""
    counts: Counter[int] = Counter()
    for pieces in texts:
        counts.update(pieces)
    return counts
