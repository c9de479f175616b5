"""Memory of an execution: how a tensor is laid out, and buffers that tensors take turns in.

A tensor whose operands all have one dtype is carried: floats as float32 holding values of their
format, with strides widened, integers and packed elements as they are. A tensor that is seen with
several dtypes, or through strides that its elements do not divide, holds the format's own bytes and
is converted at each access; so does one of tfloat32, of which only a part is read.

Law: an allocation has its own contiguous buffer while it is in use; buffers pass on from one
allocation to a later one of the same layout. Memory that was never written holds poison: NaN in
every float format, 0xFF in every byte of a packed element, 0x7F in every byte of an integer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nki_agent.isa.dtype import DType

Array = npt.NDArray[Any]
Fill = tuple[Callable[..., object], tuple[Any, ...]]
"""A function and its arguments: fills a buffer."""

ALIGNMENT_BYTES = 64
CARRIER_BYTES = 4
"""Size of float32, which carries every float format."""
NAN_BYTE = 0xFF
"""Filled with it, every float format reads as NaN."""
INTEGER_BYTE = 0x7F
"""Filled with it, an unwritten integer is easy to recognise: 0x7F, 0x7F7F, 0x7F7F7F7F."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in a buffer. `dtype` is None where the format's own bytes are held."""

    dtype: DType | None
    partitions: int
    partition_bytes: int
    is_precise: bool = True
    """Whether carried floats are rounded to their format."""
    is_carried: bool = field(init=False, compare=False)
    """Whether floats are held as float32."""
    widening: int = field(init=False, compare=False)
    """Buffer bytes for each byte of the tensor."""
    row_bytes: int = field(init=False, compare=False)
    """Buffer bytes of one partition."""

    def __post_init__(self) -> None:
        """Work out what is asked for again and again."""
        dtype = self.dtype
        is_carried = dtype is not None and dtype.is_float
        widening = CARRIER_BYTES // dtype.itemsize if dtype is not None and is_carried else 1
        object.__setattr__(self, "is_carried", is_carried)
        object.__setattr__(self, "widening", widening)
        object.__setattr__(self, "row_bytes", self.partition_bytes * widening)

    @property
    def num_bytes(self) -> int:
        """Buffer bytes in all."""
        return self.partitions * self.row_bytes


class Place:
    """A buffer, where in it a tensor begins, and its layout; both are numbered."""

    __slots__ = ("base", "buffer", "layout", "layout_number", "number", "poison", "zero")

    def __init__(self, number: int, layout: tuple[int, Layout], buffer: Array, base: int) -> None:
        """Take a view of a buffer; nothing is written."""
        self.number = number
        self.layout_number, self.layout = layout
        self.buffer = buffer
        self.base = base
        self.poison = _poison_fill(self.layout, buffer)
        self.zero: Fill = (buffer.fill, (0,))


def _poison_fill(layout: Layout, buffer: Array) -> Fill:
    if layout.is_carried:
        return buffer.view(np.float32).fill, (np.float32(np.nan),)
    is_integer = layout.dtype is not None and layout.dtype.is_integer
    return buffer.fill, (INTEGER_BYTE if is_integer else NAN_BYTE,)


class Pool:
    """Buffers by layout; one that is given back serves the next allocation of its layout."""

    def __init__(self) -> None:
        """No buffers yet."""
        self._layouts: list[Layout] = []
        self._free: list[list[Place]] = []
        self._numbers: dict[Layout, int] = {}
        self._count = 0
        self.num_bytes = 0
        """Bytes of all buffers made so far."""

    def number_of(self, layout: Layout) -> int:
        """A number for the layout, the same each time."""
        number = self._numbers.get(layout)
        if number is None:
            number = self._numbers[layout] = len(self._layouts)
            self._layouts.append(layout)
            self._free.append([])
        return number

    def bytes_of(self, layout_number: int) -> int:
        """Bytes that `make` allocates."""
        return self._layouts[layout_number].num_bytes

    def needs(self, layout_number: int) -> int:
        """Bytes that `take` would allocate now."""
        return 0 if self._free[layout_number] else self.bytes_of(layout_number)

    def take(self, layout_number: int) -> Place:
        """The place that was given back last, or a new one."""
        free = self._free[layout_number]
        return free.pop() if free else self.make(layout_number)

    def make(self, layout_number: int) -> Place:
        """A place with a buffer that no other tensor has had."""
        num_bytes = self.bytes_of(layout_number)
        self.num_bytes += num_bytes
        return self.share(layout_number, make_buffer(num_bytes), 0)

    def share(self, layout_number: int, buffer: Array, base: int) -> Place:
        """A place inside of a buffer that others see too."""
        self._count += 1
        return Place(self._count, (layout_number, self._layouts[layout_number]), buffer, base)

    def forget_free(self) -> None:
        """Let no later allocation have a buffer that was given back before now."""
        for free in self._free:
            free.clear()

    def give(self, place: Place) -> None:
        """Let a later allocation have the buffer."""
        self._free[place.layout_number].append(place)


def make_buffer(num_bytes: int) -> Array:
    """Aligned bytes, not yet touched."""
    room = np.empty(num_bytes + ALIGNMENT_BYTES, np.uint8)
    start = -room.ctypes.data % ALIGNMENT_BYTES
    return room[start : start + num_bytes]


class Scratch:
    """Temporaries of single instructions: the k-th of all instructions share memory."""

    def __init__(self) -> None:
        self._buffers: list[Array] = []

    def array(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A contiguous array over the index-th temporary."""
        num_bytes = max(1, int(np.prod(shape))) * dtype.itemsize
        while index >= len(self._buffers):
            self._buffers.append(make_buffer(num_bytes))
        if self._buffers[index].nbytes < num_bytes:
            self._buffers[index] = make_buffer(num_bytes)
        return np.ndarray(shape, dtype, self._buffers[index])
