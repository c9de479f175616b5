"""A storage and a strided view of it: attributes and indexing.

Laws: a view shares its tensor's storage and lies inside of it; on chip, axis 0 is the partition
axis and stays first. `tensor.NkiTensor` is what kernels see.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.nki.current.recorder import FORM_IDS, fail, kind_id
from nki_agent.nki.current.register import VirtualRegister
from nki_agent.nki.current.values import REGIONS, DynamicSlice, Region
from nki_agent.program.records import DynamicKind

DIMS_MAX = 5
"""Dimensions that a view may have (nki.language.NkiTensor)."""


class Storage:
    """What views of one tensor share: its id, name, and size in bytes (of a partition on chip)."""

    __slots__ = ("elems", "memory", "name", "num_bytes", "on_chip", "partitions", "tensor")

    def __init__(
        self, tensor: int, name: str, memory: Memory, shape: tuple[int, ...], dtype: DType
    ) -> None:
        """Describe the storage of a freshly recorded tensor."""
        self.tensor = tensor
        self.name = name
        self.memory = memory
        self.on_chip = memory.is_on_chip
        self.partitions = shape[0] if memory.is_on_chip else 1
        self.elems = math.prod(shape[1:] if memory.is_on_chip else shape)
        self.num_bytes = self.elems * dtype.itemsize


@dataclass(frozen=True, slots=True)
class Move:
    """A run-time offset of a view: from a register, or from a tensor in SBUF."""

    kind: DynamicKind
    source: Any
    stride_bytes: int


def _first_of(item: object) -> object:
    """Where an index starts."""
    return item.start if isinstance(item, DynamicSlice) else item


class View:
    """A view of a tensor in HBM, SBUF or PSUM."""

    __slots__ = (
        "_dynamic",
        "_form",
        "_kind",
        "_offset",
        "_start",
        "_storage",
        "_strides",
        "_tensor",
        "dtype",
        "shape",
    )

    def __init__(
        self,
        storage: Storage,
        dtype: DType,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        start: int = 0,
        move: Move | None = None,
    ) -> None:
        """`strides` and `offset` in bytes; on chip stride 0 and `start` count partitions."""
        self._storage = storage
        self._tensor = storage.tensor
        self._kind = kind_id(storage.memory, dtype)
        self._strides = strides
        self._offset = offset
        self._start = start
        self.dtype = dtype
        self.shape = shape
        self._dynamic = move
        # A view that moves at run time has no form, so that no call takes the fast path with it.
        self._form = -1 if move is not None else self._static_form

    @property
    def _static_form(self) -> int:
        """The form of the view, its run-time offset aside."""
        return FORM_IDS[self._kind, self._start, self.shape, self._strides]

    # -- attributes ---------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def name(self) -> str:
        """Name of the tensor."""
        return self._storage.name

    @property
    def buffer(self) -> Region:
        """Memory region of the tensor."""
        return REGIONS[self._storage.memory]

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements; on chip the partition stride is the storage's free size."""
        item = self.dtype.itemsize
        if not self._on_chip:
            return tuple(s // item for s in self._strides)
        first = self._strides[0] * (self._storage.num_bytes // item)
        return (first, *(s // item for s in self._strides[1:]))

    @property
    def offset(self) -> int:
        """Offset of the first element in the storage, in elements."""
        item = self.dtype.itemsize
        return self._start * (self._storage.num_bytes // item) + self._offset // item

    @property
    def _on_chip(self) -> bool:
        return self._storage.on_chip

    def is_contiguous(self) -> bool:
        """Whether the view covers its storage in row-major order (free axes only on chip)."""
        expected = self.dtype.itemsize
        pairs = list(zip(self.shape, self._strides, strict=True))[1 if self._on_chip else 0 :]
        for size, stride in reversed(pairs):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    def get_pattern(self) -> list[list[int]]:
        """[[stride, count], ...] in elements, one pair for each dimension."""
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    def is_indirect(self) -> bool:
        """Whether a run-time value addresses the view."""
        return self._dynamic is not None

    # -- indexing -----------------------------------------------------------------------------

    def __getitem__(self, key: object) -> Self:
        """A view by ints, slices, `nl.ds` and Ellipsis."""
        if type(key) is not tuple or len(key) != len(self.shape) or self._form < 0:
            return self._slow_getitem(key if type(key) is tuple else (key,))
        # The common case, kept short since kernels make many views: slices with step 1, no call of
        # `__init__`, strides shared.
        strides = self._strides
        offset = self._offset
        counts = []
        for item, size, stride in zip(key, self.shape, strides, strict=True):
            if type(item) is not slice or item.step is not None:
                return self._slow_getitem(key)
            start = item.start
            stop = item.stop
            if stop is None:
                stop = size
            if start is None:
                start = 0
            elif type(start) is not int:
                return self._slow_getitem(key)
            if type(stop) is not int or not 0 <= start < stop <= size:
                return self._slow_getitem(key)
            offset += start * stride
            counts.append(stop - start)
        first = self._start
        if self._storage.on_chip:
            rows = (key[0].start or 0) * strides[0]
            first += rows
            offset -= rows
        shape = tuple(counts)
        kind = self._kind
        view = object.__new__(type(self))
        view._storage = self._storage
        view._tensor = self._tensor
        view._kind = kind
        view._strides = strides
        view._offset = offset
        view._start = first
        view._dynamic = None
        view.dtype = self.dtype
        view.shape = shape
        view._form = FORM_IDS[kind, first, shape, strides]
        return view

    def _slow_getitem(self, keys: tuple[object, ...]) -> Self:
        shape = self.shape
        if len(keys) != len(shape) or any(k is Ellipsis for k in keys):
            keys = self._complete(keys)
        for dim, item in enumerate(keys):
            if isinstance(_first_of(item), VirtualRegister):
                return self._moving_getitem(keys, dim)
        on_chip = self._storage.on_chip
        offset, first = self._offset, self._start
        new_shape: list[int] = []
        new_strides: list[int] = []
        last = len(shape) - 1
        for dim, item in enumerate(keys):
            start, count, step, drop = self._range(dim, item)
            if self._dynamic is not None and self._dynamic.kind is not DynamicKind.SCALAR:
                self._require_whole(dim, count=count, drop=drop)
            stride = self._strides[dim]
            if dim == 0 and on_chip:
                first += start * stride
            else:
                offset += start * stride
            if drop and not (on_chip and (dim == 0 or (dim == last and len(new_shape) == 1))):
                continue
            new_shape.append(count)
            new_strides.append(stride * step)
        if not new_shape:
            new_shape, new_strides = [1], [self.dtype.itemsize]
        return type(self)(
            self._storage,
            self.dtype,
            tuple(new_shape),
            tuple(new_strides),
            offset,
            first,
            self._dynamic,
        )

    def _moving_getitem(self, keys: tuple[object, ...], dim: int) -> Self:
        """The view where a register indexes dimension `dim`, or starts the slice of it."""
        if dim == 0 and self._on_chip:
            self._refuse_partition("index by a register")
        item = keys[dim]
        still = DynamicSlice(0, item.size) if isinstance(item, DynamicSlice) else 0
        view = self[(*keys[:dim], still, *keys[dim + 1 :])]
        return view._moved(Move(DynamicKind.SCALAR, _first_of(item), self._strides[dim]))

    def _require_whole(self, dim: int, *, count: int, drop: bool) -> None:
        """The axis that run-time indices address stays whole."""
        assert self._dynamic is not None
        indirect = 1 if self._dynamic.kind is DynamicKind.INDIRECT else 0
        if dim == indirect and (drop or count != self.shape[dim]):
            fail(
                "NK210",
                f"slice of the indirect dimension of `{self.name}`",
                hint="slice the tensor of indices instead",
            )

    def _complete(self, keys: tuple[object, ...]) -> tuple[object, ...]:
        dots = [i for i, k in enumerate(keys) if k is Ellipsis]
        given = len(keys) - len(dots)
        if len(dots) > 1 or given > len(self.shape):
            fail(
                "NK202",
                f"index of tensor `{self.name}` with shape {list(self.shape)}",
                got=f"{given} indices",
                limit=f"{len(self.shape)}",
                hint="one index for each dimension, and at most one `...`",
            )
        rest = (slice(None),) * (len(self.shape) - given)
        if not dots:
            return (*keys, *rest)
        return (*keys[: dots[0]], *rest, *keys[dots[0] + 1 :])

    def _range(self, dim: int, item: object) -> tuple[int, int, int, bool]:
        """(start, count, step, whether the dimension is dropped) of one index."""
        size = self.shape[dim]
        if isinstance(item, slice):
            return (*self._slice_range(dim, item), False)
        if isinstance(item, DynamicSlice):
            return (*self._checked_range(dim, item.start, item.start + item.size, 1), False)
        index = self._as_int(item, f"index of dimension {dim}")
        where = index + size if index < 0 else index
        if not 0 <= where < size:
            self._out_of_bounds(dim, index, index)
        return where, 1, 1, True

    def _slice_range(self, dim: int, item: slice) -> tuple[int, int, int]:
        size = self.shape[dim]
        ends = []
        for value, default in ((item.start, 0), (item.stop, size)):
            number = default if value is None else self._as_int(value, "end of a slice")
            ends.append(number + size if number < 0 else number)
        step = 1 if item.step is None else self._as_int(item.step, "step of a slice")
        return self._checked_range(dim, ends[0], ends[1], step)

    def _checked_range(self, dim: int, first: int, end: int, step: int) -> tuple[int, int, int]:
        if step < 1:
            fail("NK202", "step of a slice", got=str(step), limit="at least 1")
        if first >= end:
            fail(
                "NK202",
                f"slice of dimension {dim} of tensor `{self.name}`",
                got=f"[{first}:{end}], which is empty",
                limit="start < end",
                hint="skip the tile when its size is 0",
            )
        if not 0 <= first < end <= self.shape[dim]:
            self._out_of_bounds(dim, first, end - 1)
        return first, -((first - end) // step), step

    def _as_int(self, value: object, what: str) -> int:
        if isinstance(value, View):
            fail(
                "NK114",
                f"{what} of tensor `{self.name}` is a tensor",
                hint="use `.select(dim, index)` or `.ap(..., scalar_offset=index)`",
            )
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            fail(
                "NK106",
                f"{what} of tensor `{self.name}`",
                got=type(value).__name__,
                limit="an int",
                hint="index with ints and slices; `nl.arange`, masks and index lists are the older"
                " dialect",
            )

    def _out_of_bounds(self, dim: int, low: int, high: int) -> NoReturn:
        fail(
            "NK202",
            f"Out-of-bound access for tensor `{self.name}` on dimension {dim}: index range"
            f" [{low}, {high}] exceeds dimension size of {self.shape[dim]}",
            hint="clip the tail tile: `size = min(tile, total - start)`"
            if low < self.shape[dim]
            else "all of it lies behind the end: the loop runs too often; `range(0, total, tile)`"
            " has a step for each tile and none more",
        )

    def __setitem__(self, key: object, value: object) -> None:
        """Refused: assignment is no instruction in this dialect."""
        fail(
            "NK106",
            f"assignment into tensor `{self.name}`",
            hint="write `nisa.tensor_copy(dst=..., src=...)` or `nisa.dma_copy(dst=..., src=...)`",
        )

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Self:
        """A view of `start:end:step` in one dimension."""
        keys: list[object] = [slice(None)] * self.ndim
        keys[self._dim(dim)] = slice(start, end, step)
        return self[tuple(keys)]

    def select(self, dim: int, index: object) -> Self:
        """A view of one index without its dimension; a tensor or register selects at run time."""
        number = self._dim(dim)
        keys: list[object] = [slice(None)] * self.ndim
        if not isinstance(index, View | VirtualRegister):
            keys[number] = self._as_int(index, "index")
            return self[tuple(keys)]
        if number == 0 and self._on_chip:
            self._refuse_partition("select")
        stride = self._strides[number]
        keys[number] = 0
        return self[tuple(keys)]._moved(Move(DynamicKind.SCALAR, index, stride))

    def vector_select(self, dim: int, vector_offset: object) -> Self:
        """A view of an HBM tensor whose row i is the one that `vector_offset[i]` names."""
        if self._dim(dim) != 0 or self._on_chip or not isinstance(vector_offset, View):
            fail(
                "NK210",
                f"`vector_select` of `{self.name}`",
                got=f"dimension {dim} in {self.buffer}",
                limit="dimension 0 of an HBM tensor, indices in an SBUF tile of shape (P, 1)",
            )
        rows = vector_offset.shape[0]
        view = self._view((rows, *self.shape[1:]), self._strides)
        return view._moved(Move(DynamicKind.VECTOR, vector_offset, self._strides[0]))

    def _moved(self, move: Move) -> Self:
        """The same view with a run-time offset; there can be only one."""
        if self._dynamic is not None:
            fail(
                "NK210",
                f"second run-time offset on a view of `{self.name}`",
                hint="a view has one dynamic index; combine the offsets in a register or a tile",
            )
        return type(self)(
            self._storage,
            self.dtype,
            self.shape,
            self._strides,
            self._offset,
            self._start,
            move,
        )

    def _refuse_partition(self, what: str) -> NoReturn:
        fail(
            "NK210",
            f"`{what}` on dimension 0 of on-chip tensor `{self.name}`",
            hint="the partition dimension stays as it is; move data between partitions with"
            " `nisa.nc_transpose` or `nisa.dma_copy`",
        )

    def _dim(self, dim: int) -> int:
        number = self._as_int(dim, "dimension")
        if not 0 <= number < self.ndim:
            fail(
                "NK210",
                f"dimension of tensor `{self.name}`",
                got=str(number),
                limit=f"0 to {self.ndim - 1}",
            )
        return number

    def _free_dim(self, dim: int, what: str) -> int:
        number = self._dim(dim)
        if number == 0 and self._on_chip:
            fail(
                "NK210",
                f"`{what}` on dimension 0 of on-chip tensor `{self.name}`",
                hint="the partition dimension stays as it is; move data between partitions with"
                " `nisa.nc_transpose` or `nisa.dma_copy`",
            )
        return number

    def _view(
        self, shape: Sequence[int], strides: Sequence[int], dtype: DType | None = None
    ) -> Self:
        if len(shape) > DIMS_MAX:
            fail(
                "NK210",
                f"dimensions of a view of `{self.name}`",
                got=str(len(shape)),
                limit=str(DIMS_MAX),
            )
        return type(self)(
            self._storage,
            self.dtype if dtype is None else dtype,
            tuple(shape),
            tuple(strides),
            self._offset,
            self._start,
            self._dynamic,
        )
