"""Allocation and memory functions of `nki.language`: `ndarray`, `zeros`, `load`, `store`, ...

Law: an allocation is recorded with its line; filling or loading a tile records an instruction.
Source: nki.language docstrings (0.6.0).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType, find_dtype
from nki_agent.isa.enums import Memory
from nki_agent.isa.movement import TRANSPOSE_BYTES
from nki_agent.nki.current.recorder import fail, make_tensor, require_recorder
from nki_agent.nki.current.tensor import NkiTensor
from nki_agent.nki.current.values import SBUF, Region
from nki_agent.nki.current.view import Storage
from nki_agent.program.records import Init
from nki_agent.program.structure import RANK_MAX

F = TypeVar("F", bound=Callable[..., Any])
Function = Callable[..., Any]
ISA: dict[str, Function] = {}
"""Filled by `modules` once the instructions exist; wrappers look them up when they run."""

LANGUAGE: dict[str, object] = {}
"""Every public name of `nki.language`."""

MATRIX_DIMS = 2


def public(function: F) -> F:
    """Make a function a name of `nki.language`."""
    LANGUAGE[function.__name__.rstrip("_")] = function
    return function


# -- allocation ---------------------------------------------------------------------------------


def require_dtype(value: object, what: str) -> DType:
    """The format that `value` names; NK302 if there is none."""
    dtype = find_dtype(value)
    if dtype is None:
        fail("NK302", f"dtype of {what}", got=str(value), limit="a dtype of `nki.language`")
    return dtype


def _shape(value: object, what: str) -> tuple[int, ...]:
    items = value if isinstance(value, tuple | list) else (value,)
    try:
        shape = tuple(operator.index(n) for n in items)
    except TypeError:
        fail("NK203", f"shape of {what}", got=str(value)[:80], limit="a tuple of positive integers")
    if not shape or min(shape) < 1:
        fail("NK203", f"shape of {what}", got=str(shape), limit="a tuple of positive integers")
    if len(shape) > RANK_MAX:
        fail("NK203", f"dimensions of {what}", got=str(len(shape)), limit=str(RANK_MAX))
    return shape


def _memory(buffer: object, what: str) -> Memory:
    if not isinstance(buffer, Region):
        fail(
            "NK308",
            f"`buffer` of {what}",
            got=repr(buffer)[:60],
            limit="nl.sbuf, nl.psum, nl.hbm, nl.private_hbm or nl.shared_hbm",
        )
    return buffer.memory


def allocate(
    shape: object,
    dtype: object,
    buffer: object = SBUF,
    name: str = "",
    address: object = None,
) -> NkiTensor:
    """Record one allocation and view all of it."""
    recorder = require_recorder("nl.ndarray")
    number = len(recorder.tensors)
    label = str(name) if name else f"t{number}"
    what = f"tensor `{label}`"
    memory, sizes, kind = _memory(buffer, what), _shape(shape, what), require_dtype(dtype, what)
    if memory.is_on_chip:
        _require_tile(recorder.chip, sizes, what)
    record = make_tensor(
        name=label, memory=memory, shape=sizes, dtype=kind, address=_address(address, memory, what)
    )
    return whole_view(recorder.add_tensor(record), label, memory, sizes, kind)


def _require_tile(chip: ChipSpec, sizes: tuple[int, ...], what: str) -> None:
    if len(sizes) < MATRIX_DIMS:
        fail(
            "NK203",
            f"shape of {what}",
            got=str(sizes),
            limit="at least 2 dimensions in SBUF and PSUM (partition and free)",
            hint="use (P, 1) or (1, F)",
        )
    if sizes[0] > chip.partitions:
        fail(
            "NK201",
            f"partition dimension of {what} with shape {list(sizes)}",
            got=str(sizes[0]),
            limit=str(chip.partitions),
            hint="the first dimension is the partition axis; split it into tiles of at most"
            f" {chip.partitions} rows: `for start in range(0, rows, {chip.partitions}): size ="
            f" min({chip.partitions}, rows - start)`",
        )


def _address(address: object, memory: Memory, what: str) -> tuple[int, int] | None:
    if address is None:
        return None
    if (
        not isinstance(address, tuple | list)
        or len(address) != MATRIX_DIMS
        or not memory.is_on_chip
    ):
        fail(
            "NK215",
            f"`address` of {what}",
            got=str(address)[:60],
            limit="(partition, byte) on chip",
        )
    try:
        first, second = (operator.index(v) for v in address)
    except TypeError:
        fail("NK215", f"`address` of {what}", got=str(address)[:60], limit="(partition, byte)")
    return first, second


def whole_view(
    tensor: int, name: str, memory: Memory, shape: tuple[int, ...], dtype: DType
) -> NkiTensor:
    """The view of all of a recorded tensor."""
    strides: list[int] = []
    stride = dtype.itemsize
    for size in reversed(shape[1:] if memory.is_on_chip else shape):
        strides.insert(0, stride)
        stride *= size
    if memory.is_on_chip:
        strides.insert(0, 1)
    storage = Storage(tensor, name, memory, shape, dtype)
    return NkiTensor(storage, dtype, shape, tuple(strides), 0)


@public
def ndarray(
    shape: object, dtype: object, buffer: object = SBUF, name: str = "", address: object = None
) -> NkiTensor:
    """Allocate a tensor; its contents are undefined until written."""
    return allocate(shape, dtype, buffer, name, address)


@public
def full(
    shape: object, fill_value: float, dtype: object, buffer: object = SBUF, name: str = ""
) -> NkiTensor:
    """Allocate an on-chip tensor and fill it."""
    tensor = allocate(shape, dtype, buffer, name)
    if not tensor.buffer.memory.is_on_chip:
        fail(
            "NK114",
            f"a filled tensor in {tensor.buffer}",
            hint="fill an SBUF tile and copy it out with `nisa.dma_copy`",
        )
    value = (
        int(fill_value)
        if tensor.dtype.is_integer and float(fill_value).is_integer()
        else fill_value
    )
    ISA["memset"](dst=tensor, value=value)
    return tensor


@public
def zeros(shape: object, dtype: object, buffer: object = SBUF, name: str = "") -> NkiTensor:
    """Allocate an on-chip tensor and fill it with 0."""
    return full(shape, 0, dtype, buffer, name)


@public
def ones(shape: object, dtype: object, buffer: object = SBUF, name: str = "") -> NkiTensor:
    """Allocate an on-chip tensor and fill it with 1."""
    return full(shape, 1, dtype, buffer, name)


@public
def zeros_like(
    x: NkiTensor, dtype: object = None, buffer: object = None, name: str = ""
) -> NkiTensor:
    """Zeros in the shape of `x`."""
    return full(x.shape, 0, dtype or x.dtype, x.buffer if buffer is None else buffer, name)


@public
def empty_like(
    x: NkiTensor, dtype: object = None, buffer: object = None, name: str = ""
) -> NkiTensor:
    """A fresh tensor in the shape of `x`."""
    return allocate(x.shape, dtype or x.dtype, x.buffer if buffer is None else buffer, name)


@public
def shared_constant(constant: object) -> NkiTensor:
    """A NumPy array computed on the host as a read-only tensor in shared HBM."""
    recorder = require_recorder("nl.shared_constant")
    if not isinstance(constant, np.ndarray):
        fail(
            "NK114",
            "`nl.shared_constant`",
            got=type(constant).__name__,
            limit="a NumPy array (kernels read no files)",
        )
    dtype = require_dtype(constant.dtype, "a constant")
    shape = _shape(constant.shape, "a constant")
    number = recorder.add_constant(constant, dtype)
    name = f"constant{number}"
    record = make_tensor(
        name=name, memory=Memory.SHARED_HBM, shape=shape, dtype=dtype, init=Init.CONSTANT
    )
    record = type(record)(
        name, record.memory, shape, dtype, Init.CONSTANT, record.stack, None, number
    )
    return whole_view(recorder.add_tensor(record), name, Memory.SHARED_HBM, shape, dtype)


@public
def shared_identity_matrix(
    n: int, dtype: object = DType.UINT8, dst: NkiTensor | None = None
) -> NkiTensor:
    """An n x n identity matrix in SBUF."""
    size, kind = operator.index(n), require_dtype(dtype, "the identity matrix")
    source = shared_constant(np.eye(size, dtype=np.float32).astype(kind.numpy_dtype))
    tile = allocate((size, size), kind) if dst is None else dst
    ISA["dma_copy"](dst=tile, src=source)
    return tile


# -- memory ------------------------------------------------------------------------------------


def tile_like(x: NkiTensor, dtype: object, shape: tuple[int, ...] | None = None) -> NkiTensor:
    """A new SBUF tile in the shape of `x` (or `shape`), of its dtype unless one is given."""
    if not isinstance(x, NkiTensor):
        fail("NK308", "argument of an `nl` function", got=type(x).__name__, limit="a tile")
    return allocate(x.shape if shape is None else shape, x.dtype if dtype is None else dtype)


COPY_HINT = "copy on chip with `nisa.tensor_copy`, or from HBM to HBM with `nisa.dma_copy`"
SWAP_HINT = "`nl.store(dst, value)`: the HBM view comes first, then the tile"


def _require_side(tensor: object, what: str, *, on_chip: bool, hint: str = COPY_HINT) -> None:
    """Refuse a tensor on the wrong side of a load or store."""
    if isinstance(tensor, NkiTensor) and tensor._storage.on_chip is not on_chip:
        fail(
            "NK301",
            f"memory of {what}",
            got=tensor.buffer,
            limit="sbuf" if on_chip else "hbm",
            hint=hint,
        )


@public
def load(src: NkiTensor, dtype: object = None) -> NkiTensor:
    """Copy an HBM view into a new SBUF tile of the same shape."""
    _require_side(src, "`src` of `nl.load`", on_chip=False)
    tile = tile_like(src, dtype)
    ISA["dma_copy"](dst=tile, src=src)
    return tile


@public
def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Copy an SBUF tile to an HBM view."""
    is_swapped = not getattr(getattr(value, "_storage", None), "on_chip", True)
    hint = SWAP_HINT if is_swapped else COPY_HINT
    _require_side(dst, "`dst` of `nl.store`", on_chip=False, hint=hint)
    _require_side(value, "`value` of `nl.store`", on_chip=True)
    ISA["dma_copy"](dst=dst, src=value)


@public
def copy(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """A new SBUF tile with the values of `x`."""
    tile = tile_like(x, dtype)
    ISA["tensor_copy"](dst=tile, src=x)
    return tile


@public
def load_transpose2d(src: NkiTensor, dtype: object = None) -> NkiTensor:
    """Load an HBM matrix transposed: by `dma_transpose`, or element by element if not 2 bytes."""
    _require_side(src, "`src` of `nl.load_transpose2d`", on_chip=False)
    if src.ndim != MATRIX_DIMS:
        fail(
            "NK203",
            "shape of `src` of `nl.load_transpose2d`",
            got=str(src.shape),
            limit="2 dimensions",
        )
    tile = tile_like(src, None, (src.shape[1], src.shape[0]))
    if src.dtype.itemsize == TRANSPOSE_BYTES:
        ISA["dma_transpose"](dst=tile, src=src)
    else:
        ISA["dma_copy"](dst=tile, src=src.permute((1, 0)))
    return tile if dtype in (None, tile.dtype) else copy(tile, dtype)


@public
def gather_flattened(
    data: NkiTensor, indices: object, axis: int = 0, dtype: object = None
) -> NkiTensor:
    """Elements of each partition of `data`, its free dimensions seen as one, by uint32 indices."""
    if axis != 0:
        fail(
            "NK114",
            f"`nl.gather_flattened` with axis={axis} is not modelled",
            hint="leave `axis` out: each partition gathers from its own elements",
        )
    tile = tile_like(data, None, indices.shape if isinstance(indices, NkiTensor) else None)
    ISA["nc_n_gather"](dst=tile, data=data, indices=indices)
    return tile if dtype in (None, tile.dtype) else copy(tile, dtype)
