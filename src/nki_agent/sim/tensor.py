"""The Tensor Engine: matrix products that accumulate in PSUM, and transposes.

Law: products are accumulated in float32 by one NumPy product for each instruction; nothing is fused
over instructions. What `accumulate` means for each element is decided before any run; see psum.py.
A transpose moves values exactly, except on NeuronCore-v2, where a tile with NaN or infinity goes
through the product with the identity and spreads them.
A bfloat16 destination is widened, added to in float32 and rounded again by each instruction.
Not modelled: the order in which the array adds, how it splits float32 into passes (an operand that
is said to hold ones and zeros, and does not, gives NaN), and the zero byte that the chip writes
above each transposed 8-bit float (it keeps 16 bits for one).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, PerfMode
from nki_agent.isa.tensor import ROW_PAIR
from nki_agent.sim.axes import Shape, split_axes
from nki_agent.sim.plan import MASK, Arg, Array, Run
from nki_agent.sim.psum import Write
from nki_agent.sim.rounding import FLOAT
from nki_agent.sim.site import Site

EXACT_TRANSPOSE_GENERATION = 3
ELEM_BYTES = FLOAT.itemsize


def nc_matmul(site: Site) -> None:
    """`dst (+)= stationary.T @ moving`; `site.write` says which elements add."""
    # In double_row mode the first free axis continues the contraction.
    sets = ROW_PAIR if site.name("perf_mode") == PerfMode.DOUBLE_ROW else 1
    contraction = site.operand("stationary").pattern.partitions * sets
    rows = site.operand("stationary").pattern.free_elems // sets
    columns = site.operand("moving").pattern.free_elems // sets
    stationary = _matrix(site, "stationary", (contraction, rows), turned=True)
    moving = _matrix(site, "moving", (contraction, columns), turned=False)
    multiply: Run = np.matmul
    if site.flag("is_transpose") and site.call.chip.generation >= EXACT_TRANSPOSE_GENERATION:
        multiply = _transpose_by
    flagged = []
    for role, values in (("stationary", stationary), ("moving", moving)):
        is_passed_once = site.operand(role).dtype is DType.FLOAT32
        flagged.append(is_passed_once and site.flag(f"is_{role}_onezero"))
        if flagged[-1]:
            site.check(_check_onezero, role, values)
    if any(flagged):
        multiply = partial(_multiply_onezero, multiply, tuple(flagged))
    multiply_into_psum(site, (stationary, moving), (rows, columns), multiply)


def _multiply_onezero(
    multiply: Run, flagged: tuple[bool, ...], stationary: Array, moving: Array, out: Array
) -> None:
    """Ones and zeros need half of the passes of float32; what other values lose is not known."""
    operands = (stationary, moving)
    if all(_is_onezero(values) for values, flag in zip(operands, flagged, strict=True) if flag):
        multiply(stationary, moving, out)
    else:
        out.fill(np.nan)


def _is_onezero(values: Array) -> bool:
    return bool(np.all((values == 0) | (values == 1)))


def _check_onezero(role: str, values: Array) -> Diagnostic | None:
    if _is_onezero(values):
        return None
    other = values[(values != 0) & (values != 1)]
    return Diagnostic(
        code="NK506",
        severity=Severity.WARNING,
        what=f"`{role}` of `nc_matmul`, which `is_{role}_onezero` says holds ones and zeros,",
        got=f"{other.flat[0]:.6g}",
        limit="1 or 0",
        hint=f"leave `is_{role}_onezero` out: float32 values take all passes",
    )


def multiply_into_psum(
    site: Site, operands: tuple[Arg, Arg], shape: Shape, multiply: Run = np.matmul
) -> None:
    """Add the product of two float32 matrices, as `site.write` says for the destination."""
    stationary, moving = operands
    if site.write is Write.FRESH:
        out = _product_target(site, shape)
        site.step(multiply, stationary, moving, out)
        site.store("dst", out, shape)
        return
    product = site.scratch(shape)
    site.step(multiply, stationary, moving, product)
    old, out = site.read("dst", shape), site.target("dst", shape)
    if site.write is Write.MIXED:
        site.step(_add_where, product, old, MASK)
        site.copy(out, product)
    else:
        site.step(np.add, old, product, out)
    site.store("dst", out, shape)


def _matrix(site: Site, role: str, shape: Shape, *, turned: bool) -> Arg:
    """A float32 matrix that BLAS takes without a copy of its own; `turned` transposes it."""
    strides = split_axes(site.axes(role), shape)
    is_direct = site.layout(role).is_carried or site.operand(role).dtype is DType.FLOAT32
    if is_direct and strides is not None and _is_blas_form(strides, shape):
        if turned:
            return site.view(role, shape[::-1], strides[::-1], FLOAT)
        return site.view(role, shape, strides, FLOAT)
    values = site.read(role, shape)
    copied = site.scratch(shape)
    site.copy(copied, values)
    return copied.T if turned else copied


def _is_blas_form(strides: tuple[int, ...], shape: Shape) -> bool:
    is_dense = shape[1] == 1 or strides[1] == ELEM_BYTES
    return is_dense and strides[0] >= shape[1] * ELEM_BYTES and strides[0] % ELEM_BYTES == 0


def _product_target(site: Site, shape: Shape) -> Arg:
    strides = split_axes(site.axes("dst"), shape)
    if strides is not None and _is_blas_form(strides, shape):
        return site.target("dst", shape)
    return site.scratch(shape)


def _add_where(product: Array, old: Array, mask: Array) -> None:
    np.add(product, old, product, where=mask)


def _transpose_by(stationary: Array, moving: Array, out: Array) -> None:
    """A product whose moving operand is the identity passes values through unchanged."""
    if moving.shape[0] == moving.shape[1] and np.array_equal(moving, _identity(moving.shape[0])):
        out[...] = stationary
    else:
        np.matmul(stationary, moving, out)


def _identity(size: int) -> Array:
    return np.eye(size, dtype=np.float32)


def nc_transpose(site: Site) -> None:
    """Swap the partition axis and the free axes, taken as one."""
    data = site.operand("data")
    shape = (data.pattern.partitions, data.pattern.free_elems)
    is_old = site.call.chip.generation < EXACT_TRANSPOSE_GENERATION
    if is_old and site.engine is Engine.TENSOR and data.dtype.is_float:
        values = site.scratch(shape[::-1])
        site.step(_transpose_by_product, site.read("data", shape), values)
        site.store("dst", values, values.shape, is_exact=True)
        return
    partition, *free = site.axes("data")
    site.move("dst", "data", shape=shape[::-1], src_axes=(*free, partition))


def _transpose_by_product(data: Array, out: Array) -> None:
    if np.isfinite(data).all():
        out[...] = data.T
    else:
        np.matmul(data.T, _identity(data.shape[0]), out)
