"""The math functions of `nki.language`: wrappers over instructions, reductions, ranges.

Law: a math wrapper allocates an SBUF tile of the input's dtype (or `dtype=`) and records one or
more `nki.isa` instructions; nothing here computes.
Source: nki.language docstrings (0.6.0); which instruction a wrapper records follows the NKI digest.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.isa.ops import ACTIVATIONS, ALU_OPS
from nki_agent.nki.current.allocation import (
    ISA,
    LANGUAGE,
    MATRIX_DIMS,
    Function,
    allocate,
    copy,
    public,
    require_dtype,
    tile_like,
)
from nki_agent.nki.current.elementary import sin
from nki_agent.nki.current.recorder import fail, require_recorder
from nki_agent.nki.current.register import VirtualRegister
from nki_agent.nki.current.tensor import NkiTensor
from nki_agent.nki.current.values import OPERATOR_OF, PSUM, DynamicSlice, OperatorName, Region


@public
def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """A view with a new dimension of size 1."""
    return x.expand_dim(axis)


@public
def broadcast_to(x: NkiTensor, shape: Sequence[int], dtype: object = None) -> NkiTensor:
    """A tile with free dimensions of size 1 repeated."""
    if len(shape) != x.ndim or shape[0] != x.shape[0]:
        fail(
            "NK304",
            f"`nl.broadcast_to` of a tile of shape {list(x.shape)}",
            got=str(tuple(shape)),
            limit="the same rank and partitions",
            hint="broadcast over partitions with a matmul by ones or a DMA with partition stride 0",
        )
    view = x
    for dim, (old, new) in enumerate(zip(x.shape, shape, strict=True)):
        if old != new:
            view = view.broadcast(dim, new)
    if view is x and dtype in (None, x.dtype):
        return x
    return copy(view, dtype)


# -- element-wise --------------------------------------------------------------------------------


def _binary(name: str, x: object, y: object, dtype: object) -> NkiTensor:
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        if x.shape != y.shape:
            fail(
                "NK304",
                f"shapes of `nl.{name}` differ: {list(x.shape)} and {list(y.shape)}",
                hint="`nl` functions do not broadcast; for a (P, 1) operand use"
                " `nisa.tensor_scalar`",
            )
        tile = tile_like(x, dtype)
        ISA["tensor_tensor"](dst=tile, data1=x, data2=y, op=LANGUAGE[name])
        return tile
    tensor, number, reverse = (x, y, False) if isinstance(x, NkiTensor) else (y, x, True)
    if not isinstance(tensor, NkiTensor):
        fail("NK308", f"arguments of `nl.{name}`", got="two numbers", limit="at least one tile")
    tile = tile_like(tensor, dtype)
    ISA["tensor_scalar"](
        dst=tile, data=tensor, op0=LANGUAGE[name], operand0=number, reverse0=reverse
    )
    return tile


def _unary(name: str, x: NkiTensor, dtype: object) -> NkiTensor:
    tile = tile_like(x, dtype)
    ISA["activation"](dst=tile, op=LANGUAGE[name], data=x)
    return tile


def _make_binary(name: str) -> Function:
    def function(x: object, y: object, dtype: object = None) -> NkiTensor:
        return _binary(name, x, y, dtype)

    return function


def _make_unary(name: str) -> Function:
    def function(x: NkiTensor, dtype: object = None) -> NkiTensor:
        return _unary(name, x, dtype)

    return function


def _make_unary_alu(name: str) -> Function:
    def function(x: NkiTensor, dtype: object = None) -> NkiTensor:
        tile = tile_like(x, dtype)
        ISA["tensor_scalar"](dst=tile, data=x, op0=LANGUAGE[name], operand0=0)
        return tile

    return function


def _rsqrt(x: NkiTensor, dtype: object = None) -> NkiTensor:
    tile = tile_like(x, dtype)
    if x.buffer.memory is Memory.PSUM:
        fail(
            "NK301",
            "memory of `x` of `nl.rsqrt`",
            got="psum",
            limit="sbuf",
            hint="`nl.copy` it first",
        )
    ISA["tensor_scalar"](dst=tile, data=x, op0=LANGUAGE["rsqrt"], operand0=0)
    return tile


def _reciprocal(x: NkiTensor, dtype: object = None) -> NkiTensor:
    tile = tile_like(x, dtype)
    ISA["reciprocal"](dst=tile, data=x)
    return tile


def _register_operators() -> None:
    special = {"rsqrt": _rsqrt, "reciprocal": _reciprocal, "copy": copy, "sin": sin}
    for name in sorted(ALU_OPS.keys() | ACTIVATIONS.keys()):
        op = ALU_OPS.get(name)
        if name in special:
            function: Any = special[name]
        elif name in ("bypass", "average"):
            function = OperatorName(name)
        elif op is None or name == "abs":
            function = _make_unary(name)
        else:
            function = _make_unary_alu(name) if op.is_unary else _make_binary(name)
        if callable(function):
            function.__name__ = function.__qualname__ = name
        LANGUAGE[name] = function
        OPERATOR_OF[function] = name


_register_operators()


@public
def negative(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """-x."""
    tile = tile_like(x, dtype)
    ISA["tensor_scalar"](dst=tile, data=x, op0=LANGUAGE["multiply"], operand0=-1.0)
    return tile


@public
def where(condition: NkiTensor, x: NkiTensor, y: NkiTensor, dtype: object = None) -> NkiTensor:
    """X where the condition tile is not 0, else y."""
    if not condition.shape == x.shape == y.shape:
        fail(
            "NK304",
            f"shapes of `nl.where` differ: {list(condition.shape)}, {list(x.shape)},"
            f" {list(y.shape)}",
            hint="`nl` functions do not broadcast",
        )
    kind = x.dtype if dtype is None else dtype
    mask = allocate(condition.shape, DType.UINT8)
    ISA["tensor_scalar"](dst=mask, data=condition, op0=LANGUAGE["not_equal"], operand0=0.0)
    tile = allocate(x.shape, kind)
    ISA["tensor_copy"](dst=tile, src=y)
    source = x if x.dtype == tile.dtype else copy(x, kind)
    ISA["tensor_copy_predicated"](dst=tile, src=source, predicate=mask)
    return tile


def _fails_on_hardware(name: str, advice: str) -> Function:
    def function(x: object, y: object, dtype: object = None) -> NkiTensor:
        fail("NK313", f"`nl.{name}` fails when compiled for a device", hint=advice)

    function.__name__ = function.__qualname__ = name
    LANGUAGE[name] = function
    return function


_fails_on_hardware("divide", "multiply by the reciprocal: `nl.multiply(x, nl.reciprocal(y))`")
_fails_on_hardware("mod", "subtract the floor of the quotient times y")
_fails_on_hardware("fmod", "subtract the truncated quotient times y")


# -- reductions ----------------------------------------------------------------------------------


def _axes(axis: object, rank: int) -> tuple[int, ...]:
    items = axis if isinstance(axis, tuple | list) else (axis,)
    numbers = tuple(sorted(operator.index(a) + rank * (operator.index(a) < 0) for a in items))
    if 0 in numbers:
        fail(
            "NK308",
            "`axis` of a reduction",
            got="0, the partition axis",
            limit="free dimensions",
            hint="transpose first, or multiply by a column of ones with `nisa.nc_matmul`",
        )
    return numbers


def _reduce(name: str, x: NkiTensor, axis: object, dtype: object, *, keepdims: bool) -> NkiTensor:
    axes = _axes(axis, x.ndim)
    kept = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    tile = tile_like(x, dtype, kept)
    ISA["tensor_reduce"](dst=tile, op=LANGUAGE[name], data=x, axis=axes)
    if keepdims:
        return tile
    dropped = tuple(n for d, n in enumerate(kept) if d not in axes)
    return tile.reshape(dropped if len(dropped) >= MATRIX_DIMS else (*dropped, 1))


def _make_reduction(public: str, op: str) -> None:
    def function(
        x: NkiTensor,
        axis: object,
        dtype: object = None,
        keepdims: bool = False,
    ) -> NkiTensor:
        return _reduce(op, x, axis, dtype, keepdims=keepdims)

    function.__name__ = function.__qualname__ = public
    LANGUAGE[public] = function


for _public_name, _op in (
    ("sum", "add"),
    ("max", "maximum"),
    ("min", "minimum"),
    ("prod", "multiply"),
):
    _make_reduction(_public_name, _op)


@public
def all_(x: NkiTensor, axis: object, dtype: object = None) -> NkiTensor:
    """Whether all elements along the trailing axes are not 0."""
    return _reduce("logical_and", x, axis, dtype, keepdims=False)


@public
def mean(
    x: NkiTensor,
    axis: object,
    dtype: object = None,
    keepdims: bool = False,
) -> NkiTensor:
    """Mean along the trailing axes, through float32."""
    axes = _axes(axis, x.ndim)
    count = 1
    for d in axes:
        count *= x.shape[d]
    total = _reduce("add", x, axes, DType.FLOAT32, keepdims=keepdims)
    tile = allocate(total.shape, x.dtype if dtype is None else dtype)
    ISA["tensor_scalar"](dst=tile, data=total, op0=LANGUAGE["multiply"], operand0=1.0 / count)
    return tile


@public
def var(
    x: NkiTensor,
    axis: object,
    dtype: object = None,
    keepdims: bool = False,
) -> NkiTensor:
    """Variance along the trailing axes; dimensions are always kept, as the vendor documents."""
    axes = _axes(axis, x.ndim)
    average = mean(x, axes, DType.FLOAT32, keepdims=True)
    column = average.reshape((x.shape[0], -1))
    if column.shape[1] != 1:
        fail(
            "NK114",
            "`nl.var` that keeps a free dimension is not modelled",
            hint="reduce all free axes",
        )
    centred = allocate(x.shape, DType.FLOAT32)
    ISA["tensor_scalar"](dst=centred, data=x, op0=LANGUAGE["subtract"], operand0=column)
    square = allocate(x.shape, DType.FLOAT32)
    ISA["tensor_tensor"](dst=square, data1=centred, data2=centred, op=LANGUAGE["multiply"])
    return mean(square, axes, x.dtype if dtype is None else dtype, keepdims=True)


@public
def softmax(x: NkiTensor, axis: object = -1, dtype: object = None) -> NkiTensor:
    """Row softmax over all free axes, with the row maximum subtracted."""
    if _axes(axis, x.ndim) != tuple(range(1, x.ndim)):
        fail(
            "NK114",
            "`nl.softmax` over some of the free axes is not modelled",
            hint="reduce all free axes",
        )
    rows = x.shape[0]
    top = allocate((rows, 1), DType.FLOAT32)
    ISA["tensor_reduce"](
        dst=top, op=LANGUAGE["maximum"], data=x, axis=tuple(range(1, x.ndim)), negate=True
    )
    exponentials = allocate(x.shape, DType.FLOAT32)
    total = allocate((rows, 1), DType.FLOAT32)
    ISA["activation_reduce"](
        dst=exponentials,
        op=LANGUAGE["exp"],
        data=x,
        reduce_op=LANGUAGE["add"],
        reduce_res=total,
        bias=top,
    )
    inverse = _reciprocal(total)
    tile = tile_like(x, dtype)
    ISA["tensor_scalar"](dst=tile, data=exponentials, op0=LANGUAGE["multiply"], operand0=inverse)
    return tile


@public
def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: object,
    n: int,
    epsilon: float = 1e-06,
    dtype: object = None,
    compute_dtype: object = None,
) -> NkiTensor:
    """X / sqrt(sum(x^2) / n + epsilon) * w over the trailing axes."""
    kind = (
        DType.FLOAT32 if compute_dtype is None else require_dtype(compute_dtype, "`compute_dtype`")
    )
    rows = x.shape[0]
    squares = allocate(x.shape, kind)
    total = allocate((rows, 1), DType.FLOAT32)
    if _axes(axis, x.ndim) != tuple(range(1, x.ndim)):
        fail(
            "NK114",
            "`nl.rms_norm` over some of the free axes is not modelled",
            hint="reduce all free axes",
        )
    ISA["activation_reduce"](
        dst=squares, op=LANGUAGE["square"], data=x, reduce_op=LANGUAGE["add"], reduce_res=total
    )
    ISA["tensor_scalar"](
        dst=total,
        data=total,
        op0=LANGUAGE["multiply"],
        operand0=1.0 / operator.index(n),
        op1=LANGUAGE["add"],
        operand1=float(epsilon),
    )
    inverse = allocate((rows, 1), DType.FLOAT32)
    ISA["activation"](dst=inverse, op=LANGUAGE["rsqrt"], data=total)
    scaled = allocate(x.shape, kind)
    ISA["tensor_scalar"](dst=scaled, data=x, op0=LANGUAGE["multiply"], operand0=inverse)
    tile = tile_like(x, dtype)
    ISA["tensor_tensor"](dst=tile, data1=scaled, data2=w, op=LANGUAGE["multiply"])
    return tile


# -- matrices -------------------------------------------------------------------------------------


@public
def transpose(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """A PSUM tile with partition and free axis of a 2-D tile swapped."""
    if x.ndim != MATRIX_DIMS:
        fail("NK203", "shape of `x` of `nl.transpose`", got=str(x.shape), limit="2 dimensions")
    tile = allocate((x.shape[1], x.shape[0]), x.dtype, PSUM)
    ISA["nc_transpose"](dst=tile, data=x)
    if dtype in (None, tile.dtype):
        return tile
    cast = allocate(tile.shape, dtype, PSUM)
    ISA["tensor_copy"](dst=cast, src=tile)
    return cast


@public
def matmul(
    x: NkiTensor,
    y: NkiTensor,
    transpose_x: bool = False,
) -> NkiTensor:
    """X @ y (or x.T @ y) in a new PSUM tile."""
    stationary = x if transpose_x else copy(transpose(x))
    tile = allocate((stationary.shape[1], y.shape[1]), DType.FLOAT32, PSUM)
    ISA["nc_matmul"](dst=tile, stationary=stationary, moving=y)
    return tile


# -- program and loops -----------------------------------------------------------------------------


@public
def ds(start: int | VirtualRegister, size: int) -> DynamicSlice:
    """A slice by start and size; a register starts it at run time."""
    first = start if isinstance(start, VirtualRegister) else operator.index(start)
    return DynamicSlice(first, operator.index(size))


def _make_range(name: str) -> None:
    def function(start: int, stop: int | None = None, step: int = 1) -> range:
        return range(start) if stop is None else range(start, stop, step)

    function.__name__ = function.__qualname__ = name
    LANGUAGE[name] = function


for _range_name in ("affine_range", "sequential_range", "static_range"):
    _make_range(_range_name)


@public
def program_id(axis: int = 0) -> int:
    """Number of the core that runs this."""
    return require_recorder("nl.program_id").core


@public
def num_programs(axes: object = 0) -> int:
    """Number of cores of the launch."""
    return require_recorder("nl.num_programs").launch.cores


@public
def program_ndim() -> int:
    """Dimensions of the launch grid."""
    return len(require_recorder("nl.program_ndim").launch.grid)


def _make_region_test(name: str, memories: tuple[Memory, ...]) -> None:
    def function(buffer: object) -> bool:
        return isinstance(buffer, Region) and buffer.memory in memories

    function.__name__ = function.__qualname__ = name
    LANGUAGE[name] = function


for _test_name, _memories in (
    ("is_sbuf", (Memory.SBUF,)),
    ("is_psum", (Memory.PSUM,)),
    ("is_on_chip", (Memory.SBUF, Memory.PSUM)),
    ("is_hbm", (Memory.HBM, Memory.PRIVATE_HBM, Memory.SHARED_HBM)),
):
    _make_region_test(_test_name, _memories)
