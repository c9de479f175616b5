"""Run-time offsets of one operand: how far a view moves, and which rows or elements it names.

Law: an index that leaves its tensor stops the run (NK202), or with `oob_mode.skip` leaves out what
it names. Registers and indices are signed where their format is; a negative index is out of bounds.
A `scalar` offset moves the view as a whole, so one that does not fit is left out as a whole. For
`indirect` each group of partitions has a list of its own, in a snake over the group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.isa.enums import Engine, OobMode
from nki_agent.isa.gather import GROUP, QUADRANT
from nki_agent.isa.signature import Operand, Pattern
from nki_agent.program.records import Tensor
from nki_agent.sim.storage import Place

Array = npt.NDArray[Any]
UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4)}


class Target(NamedTuple):
    """The operand that moves."""

    position: int
    """Among the tensor operands."""
    operand: Operand
    op: str
    tensor: Tensor
    place: Place
    offset: int

    @property
    def elem_bytes(self) -> int:
        """Bytes of an element in the buffer."""
        return self.operand.dtype.itemsize * self.place.layout.widening

    def view(self, counts: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Array:
        """Elements of the tensor as bits; bytes of the tensor, the partition axis left out."""
        place, pattern = self.place, self.operand.pattern
        widening = place.layout.widening
        at = place.base + offset * widening
        steps = tuple(stride * widening for stride in strides)
        if pattern.partition is not None:
            start, step, count = pattern.partition
            at += start * place.layout.row_bytes
            counts, steps = (count, *counts), (step * place.layout.row_bytes, *steps)
        return np.ndarray(counts, UNSIGNED[self.elem_bytes], place.buffer, at, steps)

    def last_index(self, pattern: Pattern, stride: int) -> int:
        """The largest index whose view of this pattern lies inside of the tensor; below 0: none."""
        low, high = pattern.extent
        if self.offset + low < 0:
            return -1
        room = self.tensor.partition_bytes - self.operand.dtype.itemsize - high - self.offset
        return room // stride

    def fault(self, index: int, last: int) -> KernelError:
        """The error of an index out of bounds."""
        return KernelError(
            Diagnostic(
                code="NK202",
                what=f"run-time index into tensor `{self.tensor.name}`"
                f" {list(self.tensor.shape)}, `{self.operand.role}` of `{self.op}`,",
                got=str(index),
                limit=f"0 to {last}" if last >= 0 else "none, as the view does not fit",
                hint="check the indices; a DMA leaves rows out with `oob_mode=nisa.oob_mode.skip`",
            )
        )


@dataclass(frozen=True, slots=True)
class ScalarMove:
    """One offset for the whole view."""

    target: Target
    value: Callable[[], int]
    stride: int
    last: int
    oob: OobMode

    def find_shift(self) -> int | None:
        """Bytes that the view moves by; None if it is left out."""
        index = self.value()
        if 0 <= index <= self.last:
            return index * self.stride
        if self.oob is OobMode.SKIP:
            return None
        raise self.target.fault(index, self.last)


class Staged:
    """An operand whose rows or elements have indices of their own: `temp` stands in for it."""

    def __init__(
        self, target: Target, indices: Callable[[], Array], *, stride: int, oob: OobMode
    ) -> None:
        """`indices` reads one index for each row, or each partition's list of them."""
        self.target = target
        self.stride = stride
        self.is_read = self.is_written = False
        self._indices = indices
        self._oob = oob
        operand = target.operand
        self.pattern, self._axis = _one_of(operand.pattern)
        self.last = target.last_index(self.pattern, stride)
        counts = tuple(count for _, count in self.pattern.free)
        strides = tuple(step for step, _ in self.pattern.free)
        length = max(self.last + 1, 1)
        self._table = (
            target.view((length, *counts), (stride, *strides), target.offset)
            if self.last >= 0
            else None
        )
        self.temp: Array = np.empty(0)
        self._index: Array = np.empty(0, np.int64)
        self.inside: Array = np.empty(0, np.bool_)
        """Which rows lie inside of the tensor; all of them unless rows may be left out."""

    def set_place(self, place: Place) -> None:
        """Where the temporary is."""
        dtype, shape = UNSIGNED[self.target.elem_bytes], self.target.operand.shape
        self.temp = np.ndarray(shape, dtype, place.buffer, place.base)

    def find(self) -> None:
        """Read the indices; KernelError for one that is out of bounds and not left out."""
        index = self._indices()
        inside = (index >= 0) & (index <= self.last)
        if not inside.all():
            if self._oob is OobMode.ERROR:
                raise self.target.fault(int(index[~inside][0]), self.last)
            index = np.where(inside, index, 0)
        self._index, self.inside = index, inside

    @property
    def has_rows(self) -> bool:
        """Whether the indices name rows, not elements of each partition."""
        return self._axis == 0

    @property
    def offsets(self) -> list[int]:
        """Where in the tensor each row inside of it begins, in bytes."""
        starts: list[int] = (self.target.offset + self._index[self.inside] * self.stride).tolist()
        return starts

    @property
    def has_repeats(self) -> bool:
        """Whether two rows are the same."""
        rows = self._index[self.inside]
        return len(np.unique(rows)) < len(rows)

    def gather(self) -> None:
        """Fill the temporary; rows left out hold anything."""
        if self._table is None:
            return
        if self._axis:
            self.temp[...] = np.take_along_axis(self._table, self._index, 1)
        else:
            np.take(self._table, self._index, 0, self.temp)

    def scatter(self) -> None:
        """Write the temporary to the rows inside; of equal ones, the last stays."""
        if self._table is None:
            return
        if self._axis:
            np.put_along_axis(self._table, self._index, self.temp, 1)
        elif self.inside.all():
            self._table[self._index] = self.temp
        else:
            self._table[self._index[self.inside]] = self.temp[self.inside]


def _one_of(pattern: Pattern) -> tuple[Pattern, int]:
    """What one index names, and which axis the indices run along."""
    if pattern.partition is None:
        return Pattern(None, pattern.free[1:]), 0
    return Pattern(pattern.partition, ()), 1


def read_number(target: Target) -> Callable[[], int]:
    """Reads the one element of an operand."""
    stored = _stored(target)
    return lambda: int(stored.item())


def read_rows(target: Target, count: int) -> Callable[[], Array]:
    """Reads one index for each row: down the partitions, then along the free axis."""
    stored = _stored(target)
    return lambda: stored.T.reshape(-1)[:count].astype(np.int64)


def read_snake(target: Target, *, count: int, engine: Engine) -> Callable[[], Array]:
    """Reads one list for each partition; KernelError if the tile holds too few for a group."""
    group = QUADRANT if engine is Engine.TENSOR else GROUP
    stored = _stored(target)
    partitions = len(stored)
    sizes = [min(group, partitions - at) for at in range(0, partitions, group)]
    columns = stored.size // partitions
    room = min(size * columns if size == group else size for size in sizes)
    if count > room:
        raise KernelError(
            Diagnostic(
                code="NK308",
                what=f"`num_elem` of `.indirect` in `{target.op}`",
                got=str(count),
                limit=f"{room}: each group of {group} partitions has its own list of indices",
                hint="give `num_elem`, or more columns of indices",
            )
        )

    def read() -> Array:
        rows = stored.reshape(partitions, columns)
        starts = range(0, partitions, group)
        lists = [rows[at : at + group].T.reshape(-1)[:count] for at in starts]
        return np.repeat(np.array(lists, np.int64), sizes, 0)

    return read


def _stored(target: Target) -> Array:
    free = target.operand.pattern.free
    counts, strides = tuple(n for _, n in free), tuple(s for s, _ in free)
    bits = target.view(counts, strides, target.offset)
    return bits.view(target.operand.dtype.numpy_dtype)
