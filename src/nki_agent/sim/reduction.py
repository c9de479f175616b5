"""Instructions of the Vector Engine that reduce, and the accumulator registers behind them.

Law: sums and products run in float32 strictly from the first element to the last, as measured on
the chip for `tensor_reduce`; the accumulators are taken to work the same way. What reduces is the
float32 result, before it is rounded to the destination. `registers = op(registers,
reduce(result))`; idle leaves the lanes undefined: NaN.
Not modelled: how `bn_stats` orders its sums; they are exact to a rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.isa.enums import Engine, ReduceCommand
from nki_agent.isa.ops import ALU_OPS, Family
from nki_agent.sim.alu import BINARY, FOLDS, IDENTITY, ORDER_FREE
from nki_agent.sim.axes import Shape
from nki_agent.sim.plan import Arg, Array
from nki_agent.sim.site import UNSIGNED, Site
from nki_agent.sim.vector import apply_scalar

FOLD_ROWS = 512
"""Elements that a sequential fold takes from each row at a time: the block stays in the cache."""
PADDED_ELEMS = 128
"""Rows from this length on are padded before they are transposed: equal power-of-two distances
share cache sets."""
PADDING_ELEMS = 16
DIRECT_ELEMS = 256
"""Rows from this length on are faster to fold where they are, if the order is free."""
DIRECT_ROWS = 16
"""So few rows are folded where they are too."""
BN_FIELDS = 3
BOOL = np.dtype(np.bool_)
MAGNITUDE = ("abs_max", "abs_min")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
NEGATIVE_ONE = np.array(-1.0, np.float32)
NOT_A_NUMBER = np.array(np.nan, np.float32)
ZERO = np.array(0.0, np.float32)
INT_ZERO = np.array(0, np.uint8)


def fold(site: Site, name: str, values: Arg, groups: Shape, elems: int) -> Array:
    """Add the reduction of `values`, of shape (*groups, elems), over its last axis.

    Returns a temporary of shape (product of groups,).
    """
    rows = math.prod(groups)
    if name in MAGNITUDE:
        out = site.scratch((rows,))
        site.step(_fold_magnitude, name, values, out.reshape(groups))
        return out
    ufunc = FOLDS[name]
    if ALU_OPS[name].family is Family.BITVEC:
        out = site.scratch((rows,), UNSIGNED[site.operand("data").dtype.itemsize])
        site.step(ufunc.reduce, values, -1, None, out.reshape(groups))
        return out
    out = site.scratch((rows,))
    if name in LOGICAL:
        truth, answer = site.scratch((*groups, elems), BOOL), site.scratch((rows,), BOOL)
        site.step(np.not_equal, values, ZERO, truth)
        site.step(ufunc.reduce, truth, -1, None, answer.reshape(groups))
        site.copy(out, answer)
    elif elems == 1:
        site.copy(out.reshape(*groups, 1), values)
    elif name in ORDER_FREE and (elems >= DIRECT_ELEMS or rows <= DIRECT_ROWS):
        site.step(ufunc.reduce, values, -1, None, out.reshape(groups))
    elif rows == 1:
        line = site.scratch((elems,))
        site.copy(line.reshape(*groups, elems), values)
        site.step(_fold_line, ufunc, line, out)
    else:
        _fold_in_order(site, ufunc, values, (groups, elems), out)
    return out


def _fold_magnitude(name: str, values: Array, out: Array) -> None:
    """The signed value of the largest or smallest magnitude, the last of equal ones."""
    sizes = np.abs(values)[..., ::-1]
    nearest = np.argmax(sizes if name == "abs_max" else -sizes, axis=-1)
    index = (values.shape[-1] - 1 - nearest)[..., None]
    out[...] = np.take_along_axis(values, index, -1)[..., 0]


def _fold_line(ufunc: Any, line: Array, out: Array) -> None:
    out[0] = ufunc.accumulate(line)[-1]


def _fold_in_order(
    site: Site, ufunc: Any, values: Arg, shape: tuple[Shape, int], out: Array
) -> None:
    """NumPy adds the rows of an array of shape (elems, rows) one after the other: transpose."""
    groups, elems = shape
    block = min(elems, FOLD_ROWS)
    turned = site.scratch((block + 1, out.size))
    into = turned[1:].T.reshape(*groups, block, copy=False)
    padded = None
    if elems >= PADDED_ELEMS:
        padded = site.scratch((out.size, block + PADDING_ELEMS))[:, :block]
        padded = padded.reshape(*groups, block, copy=False)
    if elems > block:
        assert padded is not None
        site.step(_fold_blocks, ufunc, values, (turned, into, padded), out)
        return
    if padded is not None:
        site.copy(padded, values)
        values = padded
    site.copy(into, values)
    site.step(ufunc.reduce, turned[1:], 0, None, out)


def _fold_blocks(ufunc: Any, values: Array, work: tuple[Array, Array, Array], out: Array) -> None:
    """A block of columns at a time; what came out so far is the first row of the next block."""
    turned, into, padded = work
    elems, block = values.shape[-1], padded.shape[-1]
    for start in range(0, elems, block):
        size = min(block, elems - start)
        padded[..., :size] = values[..., start : start + size]
        into[..., :size] = padded[..., :size]
        turned[0] = out
        ufunc.reduce(turned[(0 if start else 1) : 1 + size], 0, None, out)


def tensor_reduce(site: Site) -> None:
    """`reduce(op, data)` over the last free axes, negated on request."""
    axes = site.call.attribute("axis")
    assert isinstance(axes, tuple)
    shape = site.operand("data").shape
    elems = math.prod(shape[len(shape) - len(axes) :])
    groups = (shape[0], math.prod(shape[1 : len(shape) - len(axes)]))
    walk = (*groups, elems)
    if ALU_OPS[site.name("op")].family is Family.BITVEC:
        result = fold(site, site.name("op"), site.bits("data", walk), groups, elems)
        site.save_bits("dst", result.reshape(groups), groups)
        return
    result = fold(site, site.name("op"), site.read("data", walk), groups, elems).reshape(groups)
    if site.flag("negate"):
        site.step(np.multiply, result, NEGATIVE_ONE, result)
    site.store("dst", result, groups)


def accumulate(site: Site, lanes: Array, result: Array, *, op: str, command: ReduceCommand) -> None:
    """Add what the command does to the registers with the reduction of this instruction."""
    if command is ReduceCommand.REDUCE or (
        command is ReduceCommand.IDLE and site.has_tensor("reduce_res")
    ):
        site.check(_check_registers, site.call.declaration.name, lanes)
    match command:
        case ReduceCommand.IDLE:
            pass
        case ReduceCommand.RESET:
            site.copy(lanes, np.array(IDENTITY[op], np.float32))
        case ReduceCommand.REDUCE:
            site.step(BINARY[op], lanes, result, lanes)
        case ReduceCommand.RESET_REDUCE:
            site.copy(lanes, result)
        case ReduceCommand.LOAD_REDUCE:
            initial = site.scratch((result.size, 1))
            site.copy(initial, site.read_column("reduce_init", initial.ndim))
            site.step(BINARY[op], initial.reshape(-1), result, lanes)


def _check_registers(op: str, lanes: Array) -> Diagnostic | None:
    if not np.isnan(lanes).any():
        return None
    return Diagnostic(
        code="NK506",
        severity=Severity.WARNING,
        what=f"accumulator registers that `{op}` goes on from",
        got="undefined, or NaN",
        limit="what an earlier instruction left there",
        hint="begin with `reduce_cmd=nisa.reduce_cmd.reset_reduce`",
    )


def _accumulate_on_vector(site: Site, result: Array, *, op: str, lanes_of: str) -> Array:
    lanes = site.lanes(Engine.VECTOR, lanes_of)
    command = ReduceCommand(site.name("reduce_cmd"))
    if command is ReduceCommand.IDLE:
        site.copy(lanes, NOT_A_NUMBER)
    accumulate(site, lanes, result, op=op, command=command)
    return lanes


def tensor_scalar_reduce(site: Site) -> None:
    """`data op0 operand0`, and its reduction over all free axes."""
    shape = site.tile_shape("dst", "data")
    elems = math.prod(shape)
    values = site.scratch(shape)
    apply_scalar(site, 0, site.read("data", shape), values, shape=shape, elems=elems)
    _store_reduced(site, values, op=site.name("reduce_op"), lanes_of="data")


def tensor_scalar_cumulative(site: Site) -> None:
    """`register = (src op0 imm0) op1 register` along each row; `dst` gets every register value."""
    pattern = site.operand("dst").pattern
    shape = (pattern.partitions, pattern.free_elems)
    values = site.scratch(shape)
    apply_scalar(site, 0, site.read("src", shape), values, shape=shape, elems=values.size)
    op, lanes = site.name("op1"), site.lanes(Engine.VECTOR, "src")
    command = ReduceCommand(site.name("reduce_cmd"))
    if command is ReduceCommand.RESET_REDUCE:
        site.copy(lanes, np.array(IDENTITY[op], np.float32))
    elif command is ReduceCommand.LOAD_REDUCE:
        site.copy(lanes[:, None], site.read_column("imm1", len(shape)))
    else:
        site.check(_check_registers, site.call.declaration.name, lanes)
    run = _subtract_along if op == "subtract" else _accumulate_along
    site.step(run, FOLDS[op], values, lanes)
    site.store("dst", values, shape)


def _accumulate_along(ufunc: Any, values: Array, lanes: Array) -> None:
    ufunc(values[:, 0], lanes, out=values[:, 0])
    ufunc.accumulate(values, 1, out=values)
    lanes[...] = values[:, -1]


def _subtract_along(ufunc: Any, values: Array, lanes: Array) -> None:
    """The register is the second operand, so this is no accumulation of NumPy's."""
    columns = np.ascontiguousarray(values.T)
    previous = lanes
    for column in columns:
        previous = ufunc(column, previous, out=column)
    values[...] = columns.T
    lanes[...] = previous


def exponential(site: Site) -> None:
    """`exp(src - max_value)`, and its sum over all free axes."""
    shape = site.tile_shape("dst", "src")
    values = site.scratch(shape)
    column = site.read_column("max_value", len(shape))
    site.step(np.subtract, site.read("src", shape), column, values)
    site.step(np.exp, values, values)
    _store_reduced(site, values, op="add", lanes_of="src")


def _store_reduced(site: Site, values: Array, *, op: str, lanes_of: str) -> None:
    """Store the tile, and what the registers hold with its reduction."""
    partitions, elems = values.shape[0], values.size // values.shape[0]
    result = fold(site, op, values.reshape(partitions, elems), (partitions,), elems)
    lanes = _accumulate_on_vector(site, result, op=op, lanes_of=lanes_of)
    site.store("dst", values, values.shape)
    if site.has_tensor("reduce_res"):
        column = site.scratch((partitions, 1))
        site.copy(column.reshape(-1), lanes)
        if site.flag("reduce_res_negate"):
            site.step(np.multiply, column, NEGATIVE_ONE, column)
        site.store("reduce_res", column, column.shape)


def bn_stats(site: Site) -> None:
    """Count, mean and variance * count of the even elements, then of the odd ones."""
    partitions, free = (
        getattr(site.operand("data").pattern, n) for n in ("partitions", "free_elems")
    )
    out = site.scratch((partitions, 2 * BN_FIELDS))
    site.step(_bn_stats, site.read("data", (partitions, free)), out)
    site.store("dst", out, out.shape)


def _bn_stats(data: Array, out: Array) -> None:
    wide = data.astype(np.float64)
    for half in (0, 1):
        part = wide[:, half::2]
        count = part.shape[1]
        mean = part.sum(1, keepdims=True) / max(count, 1)
        first = BN_FIELDS * half
        out[:, first] = count
        out[:, first + 1] = mean[:, 0]
        out[:, first + 2] = ((part - mean) ** 2).sum(1)


def bn_aggr(site: Site) -> None:
    """Mean and variance of all the groups whose (count, mean, variance * count) are given."""
    pattern = site.operand("data").pattern
    groups = (pattern.partitions, pattern.free_elems // BN_FIELDS, BN_FIELDS)
    out = site.scratch((pattern.partitions, 2))
    site.step(_bn_aggr, site.read("data", groups), out)
    site.store("dst", out, out.shape)


def _bn_aggr(data: Array, out: Array) -> None:
    count, mean, spread = (data[:, :, field].astype(np.float64) for field in range(BN_FIELDS))
    total = count.sum(1)
    whole = (count * mean).sum(1) / total
    out[:, 0] = whole
    out[:, 1] = (spread + count * (mean - whole[:, None]) ** 2).sum(1) / total


def range_select(site: Site) -> None:
    """`data` where both comparisons of its position hold, else the lowest float32; row maxima."""
    partitions = site.operand("dst").pattern.partitions
    free = site.operand("dst").pattern.free_elems
    shape = (partitions, free)
    start = site.call.attribute("range_start")
    assert isinstance(start, int | float)
    position = (float(start) + np.arange(free)).astype(np.float32)
    bounds = [site.read_column(f"bound{i}", len(shape)) for i in (0, 1)]
    ops = [BINARY[site.name(f"comp_op{i}")] for i in (0, 1)]
    value = site.call.attribute("on_false_value")
    selected, first, second = site.scratch(shape), *(site.scratch(shape, BOOL) for _ in (0, 1))
    site.step(ops[0], position, bounds[0], first)
    site.step(ops[1], position, bounds[1], second)
    site.step(np.logical_and, first, second, first)
    site.copy(selected, np.array(value, np.float32))
    site.step(_copy_where, selected, site.read("on_true_tile", shape), first)
    _store_reduced(site, selected, op="maximum", lanes_of="on_true_tile")


def select_reduce(site: Site) -> None:
    """`on_true` where the predicate holds, else `on_false`; and the row maximum."""
    pattern = site.operand("dst").pattern
    shape = (pattern.partitions, pattern.free_elems)
    predicate = site.load("predicate", shape, site.stored_dtype("predicate"))
    chosen, selected = site.scratch(shape, BOOL), site.scratch(shape)
    site.step(np.equal if site.flag("reverse_pred") else np.not_equal, predicate, INT_ZERO, chosen)
    site.copy(selected, site.read_column("on_false", len(shape)))
    site.step(_copy_where, selected, site.read("on_true", shape), chosen)
    _store_reduced(site, selected, op="maximum", lanes_of="on_true")


def _copy_where(dst: Array, src: Array, where: Array) -> None:
    np.copyto(dst, src, where=where)
