"""Where the outliers of a big trial stand: one element in some rows of an input.

Law: what reduces a part of a row, or takes the maximum over a part of the keys, meets an outlier in
the part that it leaves out. Half of the rows with an outlier stand where loops over rows begin and
end, and half of the outliers where loops over columns do: at both ends, and at both sides of the
borders between tiles. The other halves stand anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]

SPIKED_ROWS = 4
"""A row in so many has an outlier; the others still show what a peaked row hides."""
TILE = 128
"""Loops over parts of an axis mostly take so many elements, or whole multiples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The columns that one of several inputs has its outliers in: each column belongs to one input.

    A product of two inputs then meets one outlier at a time, and stays within what masks expect.
    """

    number: int = 0
    count: int = 1

    def move(self, columns: Places, width: int) -> Places:
        """The nearest columns of this input's, at the same end or border."""
        if width < self.count:
            return columns
        moved = columns - columns % self.count + self.number
        moved = np.where(moved >= width, moved - self.count, moved)
        return np.asarray(moved, dtype=np.intp)


ALONE = Lane()


def add_outliers(
    values: NDArray[Any],
    size: float,
    rng: np.random.Generator,
    *,
    lane: Lane = ALONE,
    off_edge: float = 1.0,
) -> None:
    """Move one element of some rows up or down by `size`; those at an end or a border go up.

    Off the edges of rows and of columns it is `off_edge` of that each: what stands at an edge then
    decides what is the largest.
    """
    width = values.shape[-1]
    rows, num_edge = _choose_rows(values.shape, rng)
    sizes = np.full(len(rows), size)
    sizes[num_edge:] *= off_edge
    order = rng.permutation(len(rows))
    rows, sizes = rows[order], sizes[order]
    columns = rng.integers(0, width, len(rows))
    columns[::2] = _list_edges(width, len(columns[::2]), rng)
    sizes[1::2] *= off_edge
    sizes[1::4] *= -1.0
    values.reshape(-1, width)[rows, lane.move(columns, width)] += sizes.astype(np.float32)


def zero_row(values: NDArray[Any], rng: np.random.Generator) -> None:
    """Set one row to zero, at the same share of the way in every input; a lone row stays."""
    rows = values.reshape(-1, values.shape[-1])
    if len(rows) > 1:
        rows[int(rng.random() * len(rows))] = 0.0


def _choose_rows(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Places, int]:
    """Rows by number: those at the ends and borders of the longest axis over them come first.

    They are half, where there are enough of both; also how many they are.
    """
    num_rows = math.prod(shape[:-1])
    count = -(-num_rows // SPIKED_ROWS)
    chosen = rng.permutation(num_rows)
    lead = shape[:-1] or (1,)
    axis = int(np.argmax(lead))
    place = np.unravel_index(chosen, lead)[axis]
    at_edge = np.isin(place, [*_ends(lead[axis]), *_borders(lead[axis])])
    edge, others = chosen[at_edge], chosen[~at_edge]
    num_edge = max(min(len(edge), (count + 1) // 2), count - len(others))
    return np.concatenate([edge[:num_edge], others[: count - num_edge]]), num_edge


def _list_edges(size: int, count: int, rng: np.random.Generator) -> Places:
    """Places at edges, in turn: the last, the first, and one beside a border."""
    last, first = _ends(size)
    borders = np.resize(rng.permutation(_borders(size) or [last, first]), count)
    turns = np.stack([np.full(count, last), np.full(count, first), borders], axis=1)
    return np.asarray(turns.ravel()[:count], dtype=np.intp)


def _ends(size: int) -> tuple[int, int]:
    return size - 1, 0


def _borders(size: int) -> list[int]:
    """Both sides of the borders between tiles."""
    return [place for border in range(TILE, size, TILE) for place in (border - 1, border)]
