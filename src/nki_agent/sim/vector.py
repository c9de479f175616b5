"""Element-wise instructions of the Vector Engine.

Law: arithmetic is in float32, an operator at a time, and rounds once more at the destination;
bitwise operators see bit patterns; 32-bit integers are exact where the GpSimd Engine runs the
instruction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine
from nki_agent.isa.ops import ALU_OPS, Family
from nki_agent.sim.alu import (
    BINARY,
    BITWISE,
    BITWISE_UNARY,
    EXACT_INTEGER,
    LARGE_ELEMS,
    UNARY,
    WITH_NUMBER,
    Apply,
)
from nki_agent.sim.axes import Shape
from nki_agent.sim.plan import Arg, Array, Convert, Hole, HoleKind, refuse
from nki_agent.sim.site import UNSIGNED, Site

WORD_INTS = (DType.INT32, DType.UINT32)


def apply_op(site: Site, name: str, inputs: tuple[Arg, Arg | None], out: Arg, elems: int) -> None:
    """Add `out = first <name> second` for an arithmetic operator."""
    first, second = inputs
    if name in UNARY:
        site.step(UNARY[name], first, out)
        return
    assert second is not None
    is_number = isinstance(second, Hole) and second.kind is HoleKind.NUMBER
    if is_number and name in WITH_NUMBER and elems >= LARGE_ELEMS:
        site.step(WITH_NUMBER[name], first, second, out)
    else:
        site.step(_binary(name), first, second, out)


def _binary(name: str) -> Apply:
    if name not in BINARY:
        refuse(f"operator `nl.{name}` on two inputs")
    return BINARY[name]


def apply_scalar(site: Site, which: int, data: Arg, out: Arg, *, shape: Shape, elems: int) -> None:
    """Add `data <op> operand` with the operator, operand and reverse flag of this number."""
    name, role = site.name(f"op{which}"), _scalar_role(site, which)
    operand = None if name in UNARY else site.read_column(role, len(shape))
    inputs: tuple[Arg, Arg | None] = (data, operand)
    # In order, a number comes second, where there is a faster form for it.
    is_turned = site.flag(f"reverse{which}") and not ALU_OPS[name].is_commutative
    if operand is not None and is_turned:
        inputs = (operand, data)
    apply_op(site, name, inputs, out, elems)


def _scalar_role(site: Site, which: int) -> str:
    names = [parameter.name for parameter in site.call.declaration.parameters]
    return f"operand{which}" if f"operand{which}" in names else f"imm{which}"


def _is_bitwise(site: Site, attribute: str) -> bool:
    return ALU_OPS[site.name(attribute)].family is Family.BITVEC


def tensor_tensor(site: Site) -> None:
    """`data1 op data2`."""
    shape = site.tile_shape("dst", "data1", "data2")
    if _is_bitwise(site, "op"):
        _bitwise_pair(site, shape)
        return
    name = site.name("op")
    words = all(site.operand(role).dtype in WORD_INTS for role in ("dst", "data1", "data2"))
    if words and site.engine is Engine.GPSIMD and name in EXACT_INTEGER:
        out = site.scratch(shape, UNSIGNED[4])
        pair = [site.bits(role, shape) for role in ("data1", "data2")]
        site.step(EXACT_INTEGER[name], *pair, out)
        site.save_bits("dst", out, shape)
        return
    first, second = site.read("data1", shape), site.read("data2", shape)
    target = site.target("dst", shape)
    apply_op(site, name, (first, second), target, 0)
    site.store("dst", target, shape)


def _bitwise_pair(site: Site, shape: Shape) -> None:
    size = site.operand("dst").dtype.itemsize
    first, second = (_widen(site, role, shape, size) for role in ("data1", "data2"))
    out = site.scratch(shape, UNSIGNED[size])
    site.step(BITWISE[site.name("op")], first, second, out)
    site.save_bits("dst", out, shape)


def _widen(site: Site, role: str, shape: Shape, size: int) -> Arg:
    """The operand's bit pattern in `size` bytes, zeros above or high bits dropped."""
    bits = site.bits(role, shape)
    if site.operand(role).dtype.itemsize == size:
        return bits
    out = site.scratch(shape, UNSIGNED[size])
    site.copy(out, bits)
    return out


def _bit_number(size: int) -> Convert:
    def convert(value: float | int) -> Array:
        whole = int(value) if math.isfinite(value) else 0
        return np.array(whole % (1 << (8 * size)), UNSIGNED[size])

    return convert


def tensor_scalar(site: Site) -> None:
    """`(data op0 operand0) op1 operand1`."""
    shape = site.tile_shape("dst", "data")
    if _is_bitwise(site, "op0"):
        _bitwise_scalars(site, shape)
        return
    elems = int(np.prod(shape))
    value = site.read("data", shape)
    target = site.target("dst", shape)
    if site.name("op1"):
        middle = site.scratch(shape)
        apply_scalar(site, 0, value, middle, shape=shape, elems=elems)
        apply_scalar(site, 1, middle, target, shape=shape, elems=elems)
    else:
        apply_scalar(site, 0, value, target, shape=shape, elems=elems)
    site.store("dst", target, shape)


def _bitwise_scalars(site: Site, shape: Shape) -> None:
    size = site.operand("dst").dtype.itemsize
    value = _widen(site, "data", shape, size)
    for which in (0, 1):
        name = site.name(f"op{which}")
        if not name:
            continue
        out = site.scratch(shape, UNSIGNED[size])
        if name in BITWISE_UNARY:
            site.step(BITWISE_UNARY[name], value, out)
        else:
            pair = [value, _bit_column(site, f"operand{which}", len(shape), size)]
            if site.flag(f"reverse{which}"):
                pair.reverse()
            site.step(BITWISE[name], *pair, out)
        value = out
    site.save_bits("dst", value, shape)


def _bit_column(site: Site, role: str, ndim: int, size: int) -> Arg:
    if site.has_number(role):
        return site.number(role, _bit_number(size))
    partitions = site.operand(role).pattern.partitions
    return _widen(site, role, (partitions,) + (1,) * (ndim - 1), size)


def scalar_tensor_tensor(site: Site) -> None:
    """`(data op0 operand0) op1 operand1` with a tile as the second operand."""
    shape = site.tile_shape("dst", "data", "operand1")
    elems = int(np.prod(shape))
    data, other = site.read("data", shape), site.read("operand1", shape)
    middle, target = site.scratch(shape), site.target("dst", shape)
    apply_scalar(site, 0, data, middle, shape=shape, elems=elems)
    pair: tuple[Arg, Arg] = (other, middle) if site.flag("reverse1") else (middle, other)
    apply_op(site, site.name("op1"), pair, target, elems)
    site.store("dst", target, shape)


def reciprocal(site: Site) -> None:
    """`1 / data`."""
    shape = site.tile_shape("dst", "data")
    target = site.target("dst", shape)
    apply_op(site, "reciprocal", (site.read("data", shape), None), target, 0)
    site.store("dst", target, shape)


def tensor_tensor_scan(site: Site) -> None:
    """`state = (data0 op0 state) op1 data1` along each partition; the state stays float32."""
    partitions, free = (
        site.operand("dst").pattern.partitions,
        site.operand("dst").pattern.free_elems,
    )
    shape = (partitions, free)
    # Columns first, so that a step of the scan works on contiguous rows.
    first, second, result = (site.scratch((free, partitions)) for _ in range(3))
    site.copy(first.T, site.read("data0", shape))
    site.copy(second.T, site.read("data1", shape))
    state = site.scratch((partitions,))
    site.copy(state.reshape(partitions, 1), site.read_column("initial", len(shape)))
    ops = (_binary(site.name("op0")), _binary(site.name("op1")))
    reverse = (site.flag("reverse0"), site.flag("reverse1"))
    site.step(_scan, ops, reverse, (first, second), state, result)
    site.store("dst", result.T, shape)


def _scan(
    ops: tuple[Any, Any],
    reverse: tuple[bool, bool],
    data: tuple[Array, Array],
    state: Array,
    result: Array,
) -> None:
    middle = np.empty_like(state)
    previous = state
    for first, second, out in zip(*data, result, strict=True):
        ops[0](*((previous, first) if reverse[0] else (first, previous)), middle)
        ops[1](*((second, middle) if reverse[1] else (middle, second)), out)
        previous = out
