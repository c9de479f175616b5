"""When each byte of a tensor is first written, at the coarsest grain that is still exact.

Law: a tensor is one flat space, partition after partition. The grain is the greatest common divisor
of everything its accesses are made of, so a cell is either touched whole or not at all. Times, not
flags, are kept: a read is good where every cell's first write comes before it, whatever order
accesses are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nki_agent.memory.columns import NEVER, Columns
from nki_agent.memory.forms import Flags, Ints, Reach, reach_of

Times = npt.NDArray[np.int32]

CELLS_MAX = 2**26
"""A tensor that would need more cells is not followed: their times alone would take 256 MB."""
FANCY_CELLS = 128
"""Accesses of up to so many cells are done many at once; larger ones one at a time, as views."""
CHUNK_CELLS = 2**20


class TooFineError(Exception):
    """The accesses of a tensor share no grain that leaves few enough cells; `tensor` is its id."""

    def __init__(self, tensor: int) -> None:
        """Keep the id; the message is for us."""
        super().__init__(f"tensor {tensor} has too many cells")
        self.tensor = tensor


@dataclass(frozen=True, slots=True)
class History:
    """The accesses of one tensor that matter, in program order.

    `ranks` are their times as small numbers, equal where one instruction makes both. Tensors with
    equal keys are used in the same way, up to when: what is found for one holds for all.
    """

    tensor: int
    rows: Ints
    """Row numbers in `Columns`."""
    ranks: Ints
    key: bytes


class Cells:
    """One tensor's bytes at the grain of some of its accesses."""

    def __init__(self, columns: Columns, history: History) -> None:
        """Find the grain of `history`; TooFineError when there would be too many cells."""
        rows = history.rows
        self._columns = columns
        self.row_bytes = int(columns.partition_bytes[history.tensor])
        self.total_bytes = self.row_bytes * int(columns.partitions[history.tensor])
        self._forms: Ints = columns.form[rows]
        self._rows = rows
        self._reaches = {int(f): self._flat_reach(int(f)) for f in np.unique(self._forms)}
        starts = columns.forms.partition_start[self._forms] * self.row_bytes
        lows = np.zeros(len(rows), np.int64)
        for form, reach in self._reaches.items():
            lows[self._forms == form] = reach.low
        self._bases: Ints = columns.offset[rows] + starts + lows
        self.grain = self._find_grain()
        self.count = self.total_bytes // self.grain
        self._tensor = history.tensor
        if self.count > CELLS_MAX:
            raise TooFineError(history.tensor)

    def _spend(self, cells: int) -> None:
        """Count work; TooFineError where a Program needs too much of it."""
        self._columns.cells_left -= cells
        if self._columns.cells_left < 0:
            raise TooFineError(self._tensor)

    def _size(self, reach: Reach) -> int:
        """Cells that one access touches."""
        return reach.run_bytes // self.grain * math.prod(n for _, n in reach.dims)

    def _flat_reach(self, form: int) -> Reach:
        forms = self._columns.forms
        operand = forms.operands[form]
        dims = list(operand.pattern.free)
        step, count = int(forms.partition_step[form]), int(forms.partition_count[form])
        dims.insert(0, (step * self.row_bytes, count))
        return reach_of(dims, operand.dtype.itemsize)

    def _find_grain(self) -> int:
        grain = math.gcd(self.total_bytes, int(np.gcd.reduce(self._bases)))
        for reach in self._reaches.values():
            grain = math.gcd(grain, reach.run_bytes, *(stride for stride, _ in reach.dims))
        return grain

    def first_times(self, chosen: Flags, times: Ints) -> Times:
        """When each cell is first touched by the chosen accesses; NEVER where none does."""
        self._spend(self.count)
        result = np.full(self.count, NEVER, np.int32)
        for form, reach in self._reaches.items():
            picked = np.flatnonzero(chosen & (self._forms == form))
            if not len(picked):
                continue
            self._spend(len(picked) * self._size(reach))
            relative = self._relative(reach)
            if relative is None:
                for i in picked:
                    view = self._view(result, int(i), reach)
                    np.minimum(view, np.int32(times[i]), out=view)
                continue
            for part in _chunks(picked, len(relative)):
                index = (self._bases[part] // self.grain)[:, None] + relative
                at = np.broadcast_to(times[part].astype(np.int32)[:, None], index.shape)
                np.minimum.at(result, index.ravel(), at.ravel())
        return result

    def extremes(self, values: Times, chosen: Flags) -> tuple[Ints, Ints]:
        """For each chosen access the lowest and the highest value of its cells, in their order."""
        lowest = np.zeros(len(self._forms), np.int64)
        highest = lowest.copy()
        for form, reach in self._reaches.items():
            picked = np.flatnonzero(chosen & (self._forms == form))
            if not len(picked):
                continue
            self._spend(len(picked) * self._size(reach))
            relative = self._relative(reach)
            if relative is None:
                for i in picked:
                    view = self._view(values, int(i), reach)
                    lowest[i], highest[i] = view.min(), view.max()
                continue
            for part in _chunks(picked, len(relative)):
                cells = values[(self._bases[part] // self.grain)[:, None] + relative]
                lowest[part], highest[part] = cells.min(axis=1), cells.max(axis=1)
        return lowest[chosen], highest[chosen]

    def touched(self, access: int) -> Ints:
        """The cells of one access, in ascending order."""
        reach = self._reaches[int(self._forms[access])]
        return np.unique(self._all_relative(reach) + self._bases[access] // self.grain)

    def _relative(self, reach: Reach) -> Ints | None:
        return self._all_relative(reach) if self._size(reach) <= FANCY_CELLS else None

    def _all_relative(self, reach: Reach) -> Ints:
        cells = np.arange(reach.run_bytes // self.grain)
        for stride, count in reversed(reach.dims):
            cells = (np.arange(count)[:, None] * (stride // self.grain) + cells).ravel()
        return cells

    def _view(self, values: Times, access: int, reach: Reach) -> Times:
        size = values.itemsize
        shape = [n for _, n in reach.dims] + [reach.run_bytes // self.grain]
        strides = [s // self.grain * size for s, _ in reach.dims] + [size]
        offset = int(self._bases[access]) // self.grain * size
        return np.ndarray(tuple(shape), np.int32, values, offset, tuple(strides))


def _chunks(picked: Ints, cells_each: int) -> Iterator[Ints]:
    size = max(1, CHUNK_CELLS // cells_each)
    for start in range(0, len(picked), size):
        yield picked[start : start + size]


def histories(columns: Columns, rows: Ints) -> Iterator[History]:
    """Split rows by tensor; within a tensor they stay in program order."""
    if not len(rows):
        return
    order = rows[np.argsort(columns.tensor[rows], kind="stable")]
    tensor, time = columns.tensor[order], columns.time[order]
    is_first = np.diff(tensor, prepend=-1) != 0
    later = (np.diff(time, prepend=-1) != 0) & ~is_first
    rank = np.cumsum(later)
    cuts = np.flatnonzero(is_first)
    rank -= np.repeat(rank[cuts], np.diff(cuts, append=len(order)))
    facts = (columns.partition_bytes[tensor], columns.partitions[tensor])
    table = np.stack([columns.form[order], columns.offset[order], rank, *facts], axis=1)
    raw, row_bytes = table.tobytes(), table.strides[0]
    ends = [*cuts[1:].tolist(), len(order)]
    for start, end in zip(cuts.tolist(), ends, strict=True):
        key = raw[start * row_bytes : end * row_bytes]
        yield History(int(tensor[start]), order[start:end], rank[start:end], key)
