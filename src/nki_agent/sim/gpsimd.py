"""Instructions of the GpSimd Engine.

Law: the affine patterns of iota and affine_select are 32-bit integers that wrap; a reduction over
partitions adds from the first partition to the last in float32.
"""

from __future__ import annotations

import numpy as np

from nki_agent.sim.alu import BINARY, FOLDS
from nki_agent.sim.movement import carried_number
from nki_agent.sim.plan import Array, refuse
from nki_agent.sim.reduction import fold
from nki_agent.sim.rounding import FLOAT, saturate
from nki_agent.sim.site import UNSIGNED, Site

WORD = 1 << 32


def _affine_values(site: Site, partitions: int) -> Array:
    """`offset + partition * channel_multiplier + sum(index * step)`: (partitions, elements)."""
    pattern = site.call.attribute("pattern")
    assert isinstance(pattern, tuple)
    offset, multiplier = (_whole(site, name) for name in ("offset", "channel_multiplier"))
    values = _wrap(offset) + _wrap(multiplier) * np.arange(partitions)[:, None]
    for step, count in pattern:
        values = values[..., None] + _wrap(step) * np.arange(count)
        values = values.reshape(partitions, -1)
    return values.astype(np.int32)


def _whole(site: Site, name: str) -> int:
    value = site.call.attribute(name)
    if not isinstance(value, int):
        refuse(f"`{name}` of `{site.call.declaration.name}` that is no int")
    return value


def _wrap(number: int) -> int:
    """The number as 32 bits hold it, so that the sum of a few products fits in 64."""
    return number % WORD


def iota(site: Site) -> None:
    """Write the affine pattern."""
    dst = site.operand("dst")
    values = _affine_values(site, dst.pattern.partitions)
    ready = saturate(values.astype(np.int64), dst.dtype)
    if dst.dtype.is_integer:
        site.save("dst", ready, ready.shape, ready.dtype)
    else:
        site.store("dst", ready, ready.shape, is_exact=True)


def affine_select(site: Site) -> None:
    """`on_true_tile` where the affine pattern compares with 0, else a number."""
    dst, src = site.operand("dst"), site.operand("on_true_tile")
    values = _affine_values(site, dst.pattern.partitions)
    chosen = np.empty(values.shape, np.bool_)
    BINARY[site.name("cmp_op")](values, 0, chosen)
    is_same = dst.dtype is src.dtype
    if is_same and dst.dtype.is_integer:
        stored = dst.dtype.numpy_dtype
        out = site.scratch(chosen.shape, stored)
        site.copy(out, site.number("on_false_value", carried_number(dst.dtype)))
        site.step(_copy_where, out, site.load("on_true_tile", chosen.shape, stored), chosen)
        site.save("dst", out, out.shape, stored)
        return
    out = site.scratch(chosen.shape)
    site.copy(out, site.number("on_false_value"))
    site.step(_copy_where, out, site.read("on_true_tile", chosen.shape), chosen)
    site.store("dst", out, out.shape)


def _copy_where(dst: Array, src: Array, where: Array) -> None:
    np.copyto(dst, src, where=where)


def tensor_partition_reduce(site: Site) -> None:
    """Reduce over the partitions of `data`."""
    pattern = site.operand("data").pattern
    walk, shape = (pattern.partitions, pattern.free_elems), (1, pattern.free_elems)
    name = site.name("op")
    if name.startswith("bitwise"):
        out = site.scratch(shape, UNSIGNED[site.operand("data").dtype.itemsize])
        site.step(FOLDS[name].reduce, site.bits("data", walk), 0, None, out.reshape(-1))
        site.save_bits("dst", out, shape)
        return
    partition, *free = site.axes("data")
    values = site.read("data", walk[::-1], axes=(*free, partition))
    result = fold(site, "add" if name == "average" else name, values, walk[1:], walk[0])
    if name == "average":
        site.step(np.divide, result, np.array(pattern.partitions, FLOAT), result)
    site.store("dst", result.reshape(shape), shape)
