"""What a matmul does to each element of PSUM: overwrite or add.

`accumulate=None` overwrites an element that no matmul has written since its tensor was allocated,
and adds to one that has been; False overwrites, True adds. Writes by other instructions do not
count as a start. Where offsets are known and no loop comes between allocation and write, all of
this is decided before any run; else each run decides.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt

from nki_agent.isa.signature import Operand
from nki_agent.program.records import Tensor
from nki_agent.sim.axes import merge_axes

Mask = npt.NDArray[np.bool_]


class Write(StrEnum):
    """How a matmul writes its destination."""

    FRESH = "fresh"
    ADD = "add"
    MIXED = "mixed"
    """Some elements overwrite, the others add."""


class StartedElements:
    """Which bytes of one PSUM tensor a matmul has written."""

    __slots__ = ("_bytes", "_is_whole", "_regions", "_shape")

    def __init__(self, tensor: Tensor) -> None:
        """Nothing is started."""
        self._shape = (tensor.partitions, tensor.partition_bytes)
        self._bytes: Mask | None = None
        self._is_whole = False
        self._regions: set[tuple[int, int]] = set()

    def clear(self) -> None:
        """Forget all writes: the tensor is allocated anew."""
        self._bytes = None
        self._is_whole = False
        self._regions.clear()

    def write(
        self, region: tuple[int, int], operand: Operand, *, accumulate: object
    ) -> tuple[Write, Mask | None]:
        """What this matmul does, and the mask of the elements it adds to if it is mixed.

        `region` is the signature and the byte offset, which tell equal destinations cheaply.
        """
        if self._is_whole or region in self._regions:
            return (Write.FRESH if accumulate is False else Write.ADD), None
        write, mask = Write.FRESH, None
        if accumulate is True:
            write = Write.ADD
        elif accumulate is None and self._bytes is not None:
            write, mask = _judge(self._view(operand, region[1])[..., 0])
        self._start(region, operand)
        return write, mask

    def _start(self, region: tuple[int, int], operand: Operand) -> None:
        partitions, partition_bytes = self._shape
        covers = region[1] == 0 and operand.pattern.partitions == partitions
        if covers and merge_axes(operand.pattern.free) in _dense(operand, partition_bytes):
            self._is_whole = True
            return
        if self._bytes is None:
            self._bytes = np.zeros(self._shape, np.bool_)
        self._view(operand, region[1])[...] = True
        self._regions.add(region)

    def _view(self, operand: Operand, offset: int) -> Mask:
        """The operand's bytes: (partitions, elements..., bytes of an element)."""
        assert self._bytes is not None
        partition = operand.pattern.partition
        assert partition is not None
        start, step, count = partition
        row = self._shape[1]
        shape = (count, *(n for _, n in operand.pattern.free), operand.dtype.itemsize)
        strides = (row * step, *(stride for stride, _ in operand.pattern.free), 1)
        return np.ndarray(shape, np.bool_, self._bytes, start * row + offset, strides)


def _dense(operand: Operand, partition_bytes: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    size = operand.dtype.itemsize
    count = partition_bytes // size
    return (((size, count),),) if count > 1 else ((),)


def _judge(started: Mask) -> tuple[Write, Mask | None]:
    if not started.any():
        return Write.FRESH, None
    if started.all():
        return Write.ADD, None
    return Write.MIXED, started.reshape(started.shape[0], -1).copy()
