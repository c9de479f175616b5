"""Instructions that move data: DMA, copies, fills.

Law: equal dtypes move bits; others go through float32. A DMA walks both sides in row-major order.
"""

from __future__ import annotations

import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.isa.dtype import DType
from nki_agent.isa.movement import TRANSPOSE_AXES
from nki_agent.sim.axes import find_common_shape, natural_shape
from nki_agent.sim.plan import Array, Convert, float_number
from nki_agent.sim.rounding import round_values, saturate
from nki_agent.sim.site import Site


def dma_copy(site: Site) -> None:
    """`dst = src`, element by element."""
    walks = [site.axes("dst"), site.axes("src")]
    shape = find_common_shape(walks) or natural_shape(walks[0])
    site.move("dst", "src", shape=shape)


def tensor_copy(site: Site) -> None:
    """`dst = src` by a compute engine."""
    site.move("dst", "src", shape=site.tile_shape("dst", "src"))


def dma_transpose(site: Site) -> None:
    """`dst = src` with its axes permuted."""
    src = site.axes("src")
    axes = site.call.attribute("axes") or TRANSPOSE_AXES[len(src)]
    assert isinstance(axes, tuple)
    turned = tuple(src[axis] for axis in axes)
    shape = find_common_shape([site.axes("dst"), turned]) or natural_shape(site.axes("dst"))
    site.move("dst", "src", shape=shape, src_axes=turned)


def dma_compute(site: Site) -> None:
    """`dst` = the sum of all sources, from the first to the last in float32."""
    roles = [operand.role for operand in site.call.signature.operands if operand.role != "dst"]
    walks = [site.axes(role) for role in ("dst", *roles)]
    shape = find_common_shape(walks) or natural_shape(walks[0])
    # A destination may be one of its sources, so it is written once, in the end.
    total = site.scratch(shape)
    first, *others = [site.read(role, shape) for role in roles]
    site.copy(total, first)
    for other in others:
        site.step(np.add, total, other, total)
    site.store("dst", total, shape)


WIDEST = 2**40
"""More than any integer format holds."""


def carried_number(dtype: DType) -> Convert:
    """Turns an immediate into an element of a tensor of this dtype, as its carrier holds it."""

    def convert(value: float | int) -> Array:
        if dtype.is_integer and isinstance(value, int):
            return saturate(np.array(max(-WIDEST, min(value, WIDEST)), np.int64), dtype)
        return round_values(np.array(value, np.float32), dtype)

    return convert


def memset(site: Site) -> None:
    """Fill `dst` with a number."""
    dtype = site.operand("dst").dtype
    shape = natural_shape(site.axes("dst"))
    if dtype.is_packed:
        _clear_packed(site, dtype)
        return
    layout = site.layout("dst")
    is_rounded = dtype.is_integer or layout.is_precise or not layout.is_carried
    value = site.number("value", carried_number(dtype) if is_rounded else float_number)
    if dtype.is_integer or layout.is_carried:
        site.save("dst", value, shape, site.stored_dtype("dst"))
        return
    filled = site.scratch(shape)
    site.copy(filled, value)
    site.store("dst", filled, shape, is_exact=True)


def _clear_packed(site: Site, dtype: DType) -> None:
    if not site.is_number("value", 0):
        raise KernelError(
            Diagnostic(
                code="NK308",
                what=f"`value` of `memset` on {dtype.value}",
                got="another number",
                limit="0",
                hint="fill packed data by `nisa.quantize_mx` or from HBM",
            )
        )
    zero = np.array(0, dtype.numpy_dtype)
    site.save("dst", zero, natural_shape(site.axes("dst")), zero.dtype)


def tensor_copy_predicated(site: Site) -> None:
    """`dst = src` where the predicate is not zero; other elements stay."""
    shape = site.tile_shape("dst", "predicate")
    dtype = site.operand("dst").dtype
    predicate = site.load("predicate", shape, site.stored_dtype("predicate"))
    chosen = site.scratch(shape, np.dtype(np.bool_))
    site.step(np.equal if site.flag("reverse_pred") else np.not_equal, predicate, _ZERO, chosen)
    if dtype.is_integer:
        stored = dtype.numpy_dtype
        result = site.scratch(shape, stored)
        site.copy(result, site.load("dst", shape, stored))
        source = (
            site.number("src", carried_number(dtype))
            if site.has_number("src")
            else site.load("src", shape, stored)
        )
        site.step(_copy_where, result, source, chosen)
        site.save("dst", result, shape, stored)
        return
    result = site.scratch(shape)
    site.copy(result, site.read("dst", shape))
    source = (
        site.number("src", carried_number(dtype))
        if site.has_number("src")
        else site.read("src", shape)
    )
    site.step(_copy_where, result, source, chosen)
    site.store("dst", result, shape, is_exact=True)


_ZERO = np.array(0, np.uint8)


def _copy_where(dst: Array, src: Array, where: Array) -> None:
    np.copyto(dst, src, where=where)
