"""Operators that move values or choose them by position: cat, pad, roll, flip, tril, arange.

Law: nothing is computed on the way. What is put side by side is one PARTS node, whose parts are
written where they belong by the stages that make them; positions are IOTA nodes, so that a mask
made of them is never read from HBM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nki_agent.builtin.graph import Node, Op, UnsupportedError, contiguous_strides
from nki_agent.builtin.rules import Ref, Rules, Value
from nki_agent.isa.dtype import DType

PAIR = 2


# -- side by side ---------------------------------------------------------------------------------


def concat(rules: Rules, tensors: Sequence[Ref], dim: int = 0) -> Ref:
    """Tensors one after the other along an axis."""
    nodes = [rules.node(t) for t in tensors]
    axis = dim % len(nodes[0].shape)
    shape = list(nodes[0].shape)
    shape[axis] = sum(node.shape[axis] for node in nodes)
    dtype = _common_dtype(nodes)
    step = contiguous_strides(shape)[axis]
    places, start = [], 0
    for node in nodes:
        places.append(start * step)
        start += node.shape[axis]
    return Ref(rules.builder.parts(tuple(shape), dtype, [t.id for t in tensors], tuple(places)))


def _common_dtype(nodes: Sequence[Node]) -> DType:
    dtypes = {node.dtype for node in nodes}
    if len(dtypes) == 1:
        return nodes[0].dtype
    floats = {d for d in dtypes if d.is_float}
    return floats.pop() if len(floats) == 1 else DType.FLOAT32


def _stack(rules: Rules, tensors: Sequence[Ref], dim: int = 0) -> Ref:
    rank = len(rules.node(tensors[0]).shape) + 1
    axis = dim % rank
    return concat(rules, [_insert_axis(rules, t, axis) for t in tensors], axis)


def _insert_axis(rules: Rules, x: Ref, axis: int) -> Ref:
    """An axis of one element in front of `axis`."""
    rank = len(rules.node(x).shape)
    added = rules.builder.append_axis(x.id)
    order = [*range(axis), rank, *range(axis, rank)]
    return Ref(rules.builder.permute(added, order))


def pad_axes(rules: Rules, x: Ref, pad: Sequence[int], value: float | None = None) -> Ref:
    """Axis by axis, the last first; a negative pad cuts off."""
    rank = len(rules.node(x).shape)
    for index in range(len(pad) // PAIR):
        axis = rank - 1 - index
        before, after = pad[PAIR * index], pad[PAIR * index + 1]
        size = rules.node(x).shape[axis]
        if before < 0 or after < 0:
            x = cut(rules, x, axis, max(0, -before), size + min(0, after))
        sides = [_filled(rules, x, axis, n, value or 0.0) for n in (before, after)]
        whole = [part for part in (sides[0], x, sides[1]) if part is not None]
        if len(whole) > 1:
            x = concat(rules, whole, axis)
    return x


def _filled(rules: Rules, like: Ref, axis: int, count: int, value: float) -> Ref | None:
    if count <= 0:
        return None
    node = rules.node(like)
    shape = tuple(count if i == axis else size for i, size in enumerate(node.shape))
    return Ref(rules.builder.const(value, shape, node.dtype))


def _roll(rules: Rules, x: Ref, shifts: Sequence[int], dims: Sequence[int] = ()) -> Ref:
    shape = rules.node(x).shape
    if not dims:
        flat = _reshape(rules, x, (rules.node(x).num_elems,))
        return _reshape(rules, _roll(rules, flat, shifts, [0]), shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = shape[dim]
        start = (size - shift) % size
        if start:
            parts = [cut(rules, x, dim, start, size), cut(rules, x, dim, 0, start)]
            x = concat(rules, parts, dim)
    return x


def cut(rules: Rules, x: Ref, dim: int, start: int, end: int, step: int = 1) -> Ref:
    """Part of one axis as a view; a negative step walks it backwards from `start`."""
    node = rules.node(x)
    axis = dim % len(node.shape)
    strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
    count = max(0, -((start - end) // step) if step > 0 else -((end - start) // -step))
    shape = tuple(count if i == axis else n for i, n in enumerate(node.shape))
    moved = tuple(s * step if i == axis else s for i, s in enumerate(strides))
    base = rules.builder.base_of(x.id)
    offset = node.offset + start * strides[axis] if node.op is Op.VIEW else start * strides[axis]
    return Ref(rules.builder.view(base, shape=shape, strides=moved, offset=offset))


def _reshape(rules: Rules, x: Ref, shape: tuple[int, ...]) -> Ref:
    stored = rules.builder.unary("copy", x.id) if rules.node(x).op is Op.VIEW else x.id
    return Ref(rules.builder.view(stored, shape=shape, strides=contiguous_strides(shape)))


def _flip(rules: Rules, x: Ref, dims: Sequence[int]) -> Ref:
    for dim in dims:
        x = cut(rules, x, dim, rules.node(x).shape[dim] - 1, -1, -1)
    return Ref(rules.builder.unary("copy", x.id))


def _repeat(rules: Rules, x: Ref, repeats: Sequence[int]) -> Ref:
    node = rules.node(x)
    shape = (*(1,) * (len(repeats) - len(node.shape)), *node.shape)
    strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
    strides = (*(0,) * (len(repeats) - len(node.shape)), *strides)
    spread, walk = [], []
    for count, size, stride in zip(repeats, shape, strides, strict=True):
        spread += [count, size]
        walk += [0, stride]
    base = rules.builder.base_of(x.id)
    offset = node.offset if node.op is Op.VIEW else 0
    view = rules.builder.view(base, shape=tuple(spread), strides=tuple(walk), offset=offset)
    stored = rules.builder.unary("copy", view)
    final = tuple(a * b for a, b in zip(repeats, shape, strict=True))
    return Ref(rules.builder.view(stored, shape=final, strides=contiguous_strides(final)))


def _pixel_shuffle(rules: Rules, x: Ref, factor: int) -> Ref:
    """Put in order on the chip; of whole numbers, which are only moved, phase by phase."""
    *lead, channels, rows, cols = rules.node(x).shape
    kept = channels // factor**2
    if rules.node(x).dtype.is_float:
        n = len(lead)
        order = [*range(n + 1), n + 3, n + 1, n + 4, n + 2]
        final = (*lead, kept, rows * factor, cols * factor)
        return _shuffle(rules, x, (*lead, kept, factor, factor, rows, cols), order, final)
    split = _reshape(rules, x, (*lead, kept, factor, factor, rows, cols))
    axis = len(lead) + 1
    places = [(i, j) for i in range(factor) for j in range(factor)]
    parts = []
    for i, j in places:
        phase = cut(rules, cut(rules, split, axis, i, i + 1), axis + 1, j, j + 1)
        # [..., C, 1, 1, H, W] as [..., C, H, 1, W, 1].
        order = [*range(axis), axis + 2, axis, axis + 3, axis + 1]
        parts.append(rules.builder.permute(phase.id, order))
    shape = (*lead, kept, rows, factor, cols, factor)
    dtype = rules.node(x).dtype
    starts = tuple(i * cols * factor + j for i, j in places)
    whole = rules.builder.parts(shape, dtype, parts, starts)
    final = (*lead, kept, rows * factor, cols * factor)
    return Ref(rules.builder.view(whole, shape=final, strides=contiguous_strides(final)))


def _pixel_unshuffle(rules: Rules, x: Ref, factor: int) -> Ref:
    *lead, channels, rows, cols = rules.node(x).shape
    low = (rows // factor, cols // factor)
    split = (*lead, channels, low[0], factor, low[1], factor)
    n = len(lead)
    order = [*range(n + 1), n + 2, n + 4, n + 1, n + 3]
    return _shuffle(rules, x, split, order, (*lead, channels * factor**2, *low))


def _shuffle(
    rules: Rules, x: Ref, split: tuple[int, ...], order: Sequence[int], shape: tuple[int, ...]
) -> Ref:
    parts = _reshape(rules, x, split)
    stored = rules.builder.unary("copy", rules.builder.permute(parts.id, order))
    return Ref(rules.builder.view(stored, shape=shape, strides=contiguous_strides(shape)))


# -- by position ----------------------------------------------------------------------------------


def _arange(rules: Rules, *bounds: float, **_: object) -> Ref:
    start, end, step = 0.0, bounds[0], 1.0
    if len(bounds) > 1:
        start, end = bounds[0], bounds[1]
    if len(bounds) > PAIR:
        step = bounds[2]
    if not all(float(b).is_integer() for b in (start, step)):
        raise UnsupportedError("arange", "its steps are no whole numbers")
    count = max(0, int(-((start - end) // step)))
    return Ref(rules.builder.iota((count,), steps=(int(step),), start=int(start)))


def _triangle(function: str, rules: Rules, x: Ref, diagonal: int = 0) -> Ref:
    """Zero where `column - row - diagonal` is on the wrong side of 0."""
    node = rules.node(x)
    steps = (*(0,) * (len(node.shape) - PAIR), -1, 1)
    apart = rules.builder.iota(node.shape, steps=steps, start=-int(diagonal))
    kept = Ref(rules.builder.binary(function, apart, rules.builder.const(0.0), DType.BOOL))
    if node.dtype is not DType.BOOL:
        return rules.where(kept, x, 0.0)
    if node.op is Op.CONST:
        return kept if node.value else x
    return rules.binary("logical_and", x, kept)


def _tril(rules: Rules, x: Ref, diagonal: int = 0) -> Ref:
    return _triangle("less_equal", rules, x, diagonal)


def _triu(rules: Rules, x: Ref, diagonal: int = 0) -> Ref:
    return _triangle("greater_equal", rules, x, diagonal)


# -- bits -----------------------------------------------------------------------------------------


def bits(function: str, rules: Rules, x: Value, y: Value) -> Ref:
    """Bit by bit on whole numbers; on bool the logical operator."""
    nodes = rules.node(x), rules.node(y)
    if all(n.dtype is DType.BOOL or n.op is Op.CONST for n in nodes):
        return rules.binary(function.replace("bitwise", "logical"), x, y)
    if any(n.dtype.is_float and n.op is not Op.CONST for n in nodes):
        raise UnsupportedError(function, "its operands are no whole numbers")
    return rules.binary(function, x, y)


def _bitwise(function: str) -> Callable[[Rules, Value, Value], Ref]:
    def rule(rules: Rules, x: Value, y: Value) -> Ref:
        return bits(function, rules, x, y)

    return rule


def _bitwise_not(rules: Rules, x: Ref) -> Ref:
    if rules.node(x).dtype is DType.BOOL:
        return rules.binary("equal", x, 0.0)
    return bits("bitwise_xor", rules, x, -1.0)


MOVES: dict[str, Callable[..., Any]] = {
    "cat": concat,
    "stack": _stack,
    "roll": _roll,
    "flip": _flip,
    "repeat": _repeat,
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    "arange": _arange,
    "tril": _tril,
    "triu": _triu,
    "bitwise_and": _bitwise("bitwise_and"),
    "bitwise_or": _bitwise("bitwise_or"),
    "bitwise_xor": _bitwise("bitwise_xor"),
    "bitwise_left_shift": _bitwise("left_shift"),
    "__lshift__": _bitwise("left_shift"),
    "__rshift__": _bitwise("right_shift"),
    "bitwise_right_shift": _bitwise("right_shift"),
    "bitwise_not": _bitwise_not,
    "__and__": _bitwise("bitwise_and"),
    "__or__": _bitwise("bitwise_or"),
    "__xor__": _bitwise("bitwise_xor"),
}
"""The rule for each operator of this kind."""
