"""Views in other shapes, orders and dtypes of the same storage.

Source: nki.language.NkiTensor (0.6.0). Partition rule: dimension 0 of an on-chip tensor is never
permuted, broadcast, split, merged or squeezed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from nki_agent.isa.dtype import DType, find_dtype
from nki_agent.nki.current.recorder import fail, require_generation
from nki_agent.nki.current.register import VirtualRegister
from nki_agent.nki.current.view import DIMS_MAX, Move, View
from nki_agent.program.records import DynamicKind

INDIRECT_GENERATION = 4


class Layout(View):
    """A view that can be seen in another layout."""

    __slots__ = ()

    # -- reshaping ----------------------------------------------------------------------------

    def permute(self, dims: Sequence[int]) -> Self:
        """Reorder dimensions; on chip dimension 0 stays first."""
        order = [self._as_int(d, "dimension") for d in dims]
        if sorted(order) != list(range(self.ndim)) or (self._on_chip and order[0] != 0):
            fail(
                "NK210",
                f"`permute` of tensor `{self.name}` with shape {list(self.shape)}",
                got=str(tuple(order)),
                limit="a permutation that keeps dimension 0 first on chip",
                hint="swap partition and free axes with `nisa.nc_transpose`",
            )
        return self._view([self.shape[d] for d in order], [self._strides[d] for d in order])

    def broadcast(self, dim: int, size: int) -> Self:
        """Repeat a size-1 dimension `size` times without a copy."""
        number = self._free_dim(dim, "broadcast")
        if self.shape[number] != 1:
            fail(
                "NK210",
                f"`broadcast` of dimension {number} of `{self.name}`",
                got=f"size {self.shape[number]}",
                limit="size 1",
            )
        shape, strides = list(self.shape), list(self._strides)
        shape[number], strides[number] = self._as_int(size, "size"), 0
        return self._view(shape, strides)

    def expand_dim(self, dim: int) -> Self:
        """Insert a dimension of size 1."""
        number = self._as_int(dim, "dimension")
        low = 1 if self._on_chip else 0
        if not low <= number <= self.ndim:
            fail(
                "NK210",
                f"`expand_dim` of `{self.name}`",
                got=str(number),
                limit=f"{low} to {self.ndim}",
            )
        shape, strides = list(self.shape), list(self._strides)
        shape.insert(number, 1)
        strides.insert(number, self.dtype.itemsize)
        return self._view(shape, strides)

    def squeeze_dim(self, dim: int) -> Self:
        """Remove a dimension of size 1."""
        number = self._free_dim(dim, "squeeze_dim")
        if self.shape[number] != 1:
            fail(
                "NK210",
                f"`squeeze_dim` of dimension {number} of `{self.name}`",
                got=f"size {self.shape[number]}",
                limit="size 1",
            )
        shape, strides = list(self.shape), list(self._strides)
        del shape[number], strides[number]
        return self._view(shape, strides)

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> Self:
        """Split one dimension; one size may be -1."""
        number = self._dim(dim)
        sizes = _infer([self._as_int(n, "size") for n in shape], self.shape[number])
        if number == 0 and self._on_chip and sizes != [self.shape[0]]:
            self._free_dim(0, "reshape_dim")
        if math.prod(sizes) != self.shape[number] or min(sizes) < 1:
            fail(
                "NK210",
                f"`reshape_dim` of dimension {number} of `{self.name}`",
                got=str(tuple(shape)),
                limit=f"sizes with product {self.shape[number]}",
            )
        stride = self._strides[number]
        inner: list[int] = []
        for size in reversed(sizes):
            inner.insert(0, stride)
            stride *= size
        return self._view(
            [*self.shape[:number], *sizes, *self.shape[number + 1 :]],
            [*self._strides[:number], *inner, *self._strides[number + 1 :]],
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> Self:
        """Merge dimensions that are contiguous with each other."""
        first, last = self._free_dim(start_dim, "flatten_dims"), self._dim(end_dim)
        merged = _merge(self.shape[first : last + 1], self._strides[first : last + 1])
        if first > last or merged is None:
            fail(
                "NK210",
                f"`flatten_dims({first}, {last})` of `{self.name}` with pattern"
                f" {self.get_pattern()}",
                hint="only dimensions that are contiguous in memory merge",
            )
        return self._view(
            [*self.shape[:first], merged[0], *self.shape[last + 1 :]],
            [*self._strides[:first], merged[1], *self._strides[last + 1 :]],
        )

    def reshape(self, *shape: object) -> Self:
        """The same elements in another shape; on chip dimension 0 keeps its size."""
        given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        sizes = _infer([self._as_int(n, "size") for n in given], self.size)  # type: ignore[attr-defined]
        if not sizes or math.prod(sizes) != self.size or min(sizes) < 1:
            fail(
                "NK210",
                f"`reshape` of `{self.name}` with shape {list(self.shape)}",
                got=str(tuple(sizes)),
                limit=f"{self.size} elements",
                hint=_same_size(self.size, sizes),
            )
        if self._on_chip and (len(sizes) < 2 or sizes[0] != self.shape[0]):
            fail(
                "NK210",
                f"`reshape` of on-chip tensor `{self.name}` with shape {list(self.shape)}",
                got=str(tuple(sizes)),
                limit=f"({self.shape[0]}, ...)",
                hint="the partition dimension keeps its size",
            )
        fixed = 1 if self._on_chip else 0
        strides = _reshape_strides(self.shape[fixed:], self._strides[fixed:], sizes[fixed:])
        if strides is None:
            fail(
                "NK210",
                f"`reshape` of `{self.name}` to {tuple(sizes)} from pattern {self.get_pattern()}",
                hint="the layout is not contiguous there; copy it first",
            )
        return self._view(sizes, [*self._strides[:fixed], *strides])

    def rearrange(
        self,
        src_pattern: tuple[object, ...],
        dst_pattern: tuple[object, ...],
        fixed_sizes: dict[str, int] | None = None,
    ) -> Self:
        """Split, reorder and merge dimensions by name, as einops does."""
        known = dict(fixed_sizes or {})
        view, names = self, list[str]()
        if len(src_pattern) != self.ndim:
            fail(
                "NK210",
                f"`rearrange` pattern of `{self.name}`",
                got=f"{len(src_pattern)} entries",
                limit=str(self.ndim),
            )
        for entry in src_pattern:
            group = [entry] if isinstance(entry, str) else list(entry)  # type: ignore[call-overload]
            if len(group) > 1:
                view = view.reshape_dim(len(names), [known.get(n, -1) for n in group])
            names.extend(group)
        flat = [n for e in dst_pattern for n in ([e] if isinstance(e, str) else e)]  # type: ignore[attr-defined]
        if sorted(flat) != sorted(names):
            fail(
                "NK210",
                f"`rearrange` of `{self.name}`",
                got=f"names {flat}",
                limit=f"the names {names}",
            )
        view = view.permute([names.index(n) for n in flat])
        for dim, entry in enumerate(dst_pattern):
            count = 1 if isinstance(entry, str) else len(entry)  # type: ignore[arg-type]
            if count > 1:
                view = view.flatten_dims(dim, dim + count - 1)
        return view

    # -- low level ----------------------------------------------------------------------------

    def view(self, dtype: object) -> Self:
        """The same bytes as another dtype; the last dimension scales with the item size."""
        new = find_dtype(dtype)
        if new is None:
            fail("NK302", f"dtype of `view` of `{self.name}`", got=str(dtype), limit="an NKI dtype")
        old_size, new_size = self.dtype.itemsize, new.itemsize
        last_bytes = self.shape[-1] * old_size
        if self._strides[-1] != old_size or last_bytes % new_size:
            fail(
                "NK210",
                f"`view` of `{self.name}` as {new.value}",
                hint="the last dimension must be contiguous and hold whole elements",
            )
        aligned = self._offset % new_size == 0 and all(
            s % new_size == 0 for s in self._byte_strides()[:-1]
        )
        if not aligned:
            fail(
                "NK210",
                f"`view` of `{self.name}` as {new.value}",
                hint="offset and strides must be multiples of the new item size",
            )
        return self._view(
            [*self.shape[:-1], last_bytes // new_size], [*self._strides[:-1], new_size], new
        )

    def reinterpret_cast(self, dtype: object) -> Self:
        """Another name of `view`."""
        return self.view(dtype)

    def _byte_strides(self) -> tuple[int, ...]:
        return self._strides[1:] if self._on_chip else self._strides

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: object = None,
        vector_offset: object = None,
        indirect_dim: int = 0,
        dtype: object = None,
    ) -> Self:
        """An explicit access pattern [[stride, count], ...] in elements of the raw storage."""
        new = self.dtype if dtype is None else find_dtype(dtype)
        if new is None:
            fail("NK302", f"dtype of `.ap` of `{self.name}`", got=str(dtype), limit="an NKI dtype")
        pairs = [[self._as_int(v, "entry of a pattern") for v in pair] for pair in pattern]
        if not pairs or len(pairs) > DIMS_MAX or any(len(p) != 2 or p[1] < 1 for p in pairs):
            fail(
                "NK210",
                f"pattern of `.ap` of `{self.name}`",
                got=str(pairs),
                limit=f"1 to {DIMS_MAX} pairs [stride, count], counts positive",
            )
        move = self._move(scalar_offset, vector_offset, indirect_dim, new)
        return self._strided(pairs, new, self._as_int(offset or 0, "offset"), move)

    def _move(
        self, scalar_offset: object, vector_offset: object, indirect_dim: int, dtype: DType
    ) -> Move | None:
        """The run-time offset that `.ap` asks for; it scales with a stride of this view."""
        if scalar_offset is None and vector_offset is None:
            return None
        source = vector_offset if scalar_offset is None else scalar_offset
        both = scalar_offset is not None and vector_offset is not None
        if both or self._dynamic is not None:
            fail("NK210", f"run-time offsets of a view of `{self.name}`", got="two", limit="one")
        if not isinstance(source, View | VirtualRegister):
            limit = "an SBUF tile or a register"
            fail("NK308", "run-time offset of `.ap`", got=type(source).__name__, limit=limit)
        dim = self._dim(indirect_dim)
        stride = self._strides[dim] // self.dtype.itemsize * dtype.itemsize
        if vector_offset is not None:
            if isinstance(source, VirtualRegister) or dim != 0 or self._on_chip:
                fail(
                    "NK210",
                    f"`vector_offset` of `{self.name}`",
                    got=f"dimension {dim} in {self.buffer}",
                    limit="dimension 0 of an HBM tensor, indices in an SBUF tile of shape (P, 1)",
                )
            return Move(DynamicKind.VECTOR, source, stride)
        if dim == 0 and self._on_chip:
            self._refuse_partition(".ap(scalar_offset=...)")
        return Move(DynamicKind.SCALAR, source, stride)

    def _strided(
        self, pairs: list[list[int]], dtype: DType, offset: int, move: Move | None = None
    ) -> Self:
        item = dtype.itemsize
        row = self._storage.num_bytes // item
        start, byte_offset = self._start, self._offset + offset * item
        strides = [s * item for s, _ in pairs]
        if self._on_chip:
            if pairs[0][0] != row or len(pairs) < 2:
                fail(
                    "NK210",
                    f"first stride of `.ap` of on-chip tensor `{self.name}`",
                    got=str(pairs[0][0]),
                    limit=f"{row}, the elements of one partition of its storage",
                    hint="the first pair walks the partitions: [[free_size, partitions], ...]",
                )
            start += byte_offset // (row * item)
            byte_offset %= row * item
            strides[0] = 1
        shape = tuple(n for _, n in pairs)
        view = type(self)(self._storage, dtype, shape, tuple(strides), byte_offset, start, move)
        rows_move = move is not None and move.kind is DynamicKind.VECTOR
        view._require_inside(pairs, skip_rows=rows_move)
        return view

    def _require_inside(self, pairs: list[list[int]], *, skip_rows: bool) -> None:
        """Refuse a pattern that leaves its storage; named rows are checked at run time."""
        skip = 1 if self._on_chip or skip_rows else 0
        spans = [s * (n - 1) for s, n in zip(self._strides[skip:], self.shape[skip:], strict=True)]
        low = self._offset + sum(min(0, s) for s in spans)
        high = self._offset + sum(max(0, s) for s in spans) + self.dtype.itemsize
        rows = self._start + self.shape[0] if self._on_chip else 1
        if low < 0 or high > self._storage.num_bytes or rows > self._storage.partitions:
            fail(
                "NK202",
                f"Out-of-bound access for tensor `{self.name}`: pattern {pairs} at element"
                f" {self.offset} leaves its storage",
                hint="the largest element is offset + sum(stride * (count - 1))",
            )

    def indirect(self, index: object, num_elem: int | None = None) -> Self:
        """Free elements of each partition by a list of offsets (NeuronCore-v4).

        Offset i lies in the snake `index[i % 16, i // 16]` (32 for the Tensor Engine).
        """
        if not isinstance(index, View) or not self._on_chip:
            limit = "an on-chip view, and an SBUF tile of offsets"
            fail("NK210", f"`indirect` of `{self.name}`", got=type(index).__name__, limit=limit)
        count = index.size if num_elem is None else self._as_int(num_elem, "num_elem")
        if not 0 < count <= index.size:
            fail("NK210", "`num_elem` of `indirect`", got=str(count), limit=f"1 to {index.size}")
        require_generation(f"`indirect` of `{self.name}`", INDIRECT_GENERATION)
        shape = (self.shape[0], count)
        strides = (self._strides[0], self.dtype.itemsize)
        view = type(self)(
            self._storage, self.dtype, shape, strides, self._offset, self._start, self._dynamic
        )
        return view._moved(Move(DynamicKind.INDIRECT, index, self.dtype.itemsize))


def _infer(sizes: list[int], total: int) -> list[int]:
    if sizes.count(-1) != 1:
        return sizes
    known = math.prod(n for n in sizes if n != -1)
    return [total // known if n == -1 and known else n for n in sizes]


def _merge(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """(size, stride) of dimensions merged into one; None where they are not contiguous."""
    size, stride = 1, strides[-1] if strides else 0
    for count, step in zip(reversed(shape), reversed(strides), strict=True):
        if count == 1:
            continue
        if size == 1:
            stride = step
        elif step != stride * size:
            return None
        size *= count
    return size, stride


def _same_size(size: int, sizes: Sequence[int]) -> str:
    """The shape that is meant where only its last size is off."""
    rows = math.prod(sizes[:-1])
    if len(sizes) < 2 or min(sizes) < 1 or size % rows:
        return "the product of the sizes stays the same"
    return f"`.reshape({(*sizes[:-1], size // rows)})` has as many"


def _reshape_strides(
    shape: Sequence[int], strides: Sequence[int], sizes: Sequence[int]
) -> list[int] | None:
    """Strides of the same elements seen with `sizes`; None where a copy would be needed."""
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    result: list[int] = []
    position = 0
    group: list[tuple[int, int]] = []
    group_size = 1
    wanted = 1
    pending: list[int] = []
    for size in sizes:
        pending.append(size)
        wanted *= size
        while group_size < wanted and position < len(old):
            group.append(old[position])
            group_size *= old[position][0]
            position += 1
        if group_size == wanted:
            inner = _split_strides(group, pending)
            if inner is None:
                return None
            result.extend(inner)
            group, group_size, wanted, pending = [], 1, 1, []
    return result if not pending else None


def _split_strides(group: list[tuple[int, int]], sizes: list[int]) -> list[int] | None:
    merged = _merge([n for n, _ in group], [s for _, s in group])
    if merged is None:
        return None
    stride = merged[1]
    inner: list[int] = []
    for size in reversed(sizes):
        inner.insert(0, stride)
        stride *= size
    return inner
