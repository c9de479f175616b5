"""Statistics and normalisation over axes that need not be the last ones.

Law: nothing is subtracted before its mean is known, so that no large sums cancel. Where other axes
lie between, or rows would be long, each row of the last axes gives its mean and its squares about
it, and those of many rows are put together exactly: their variance is the mean of the rows' own,
and the spread of the rows' means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nki_agent.builtin.graph import Op, UnsupportedError, contiguous_strides
from nki_agent.builtin.rules import Ref, Rules

Axes = Sequence[int] | None
ROW_AXES = 2
"""Axes of one row: an image at most, so that rows of volumes stay short."""
CHANNEL_RANK = 2


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and variance over `count` elements, laid out as the kept axes and then the others.

    `order` are the axes of the tensor in that layout; those that were reduced have one element.
    """

    mean: Ref
    variance: Ref
    count: int
    order: tuple[int, ...]


def find_moments(
    rules: Rules, x: Ref, axes: Axes, *, correction: float = 0.0, row_axes: int | None = None
) -> Moments:
    """Mean and variance of `x` over `axes`; all of them if there are none.

    `row_axes` is the number of last axes that make one row; left open, the axes are one row where
    they are the last ones.

    Raises:
        UnsupportedError: no degree of freedom is left.
    """
    rank = len(rules.node(x).shape)
    wanted = tuple(sorted({a % rank for a in axes})) if axes else tuple(range(rank))
    count = rules.size(x, wanted)
    if count - correction <= 0:
        raise UnsupportedError("var", f"{count} elements leave no degree of freedom")
    num_last = sum(1 for i, a in enumerate(reversed(wanted)) if a == rank - 1 - i)
    if row_axes is None and num_last in (0, len(wanted)):
        row_axes = len(wanted)
    elif row_axes is None:
        row_axes = min(num_last, ROW_AXES)
    inner = wanted[len(wanted) - row_axes :]
    outer = wanted[: len(wanted) - row_axes]
    mean, variance = _row_moments(rules, x, inner, 0.0 if outer else correction)
    if not outer:
        return Moments(mean, variance, count, tuple(range(rank)))
    order = (*(a for a in range(rank) if a not in outer), *outer)
    columns = tuple(range(rank - len(outer), rank))
    row_mean, row_variance = (
        Ref(rules.builder.fence(rules.builder.permute(part.id, order))) for part in (mean, variance)
    )
    # All rows are equally long, so that the mean of their variances is their share.
    mean = rules.mean(row_mean, columns, keepdims=True)
    spread = rules.unary("square", rules.sub(row_mean, mean))
    variance = rules.mean(rules.add(spread, row_variance), columns, keepdims=True)
    if correction:
        variance = rules.mul(variance, count / (count - correction))
    return Moments(mean, rules.named(variance, "variance"), count, order)


def _row_moments(rules: Rules, x: Ref, axes: Sequence[int], correction: float) -> tuple[Ref, Ref]:
    """Mean and variance over the axes of one row."""
    mean = rules.mean(x, axes, keepdims=True)
    centred = rules.named(rules.sub(x, mean), "centred")
    total = rules.reduce("add", rules.unary("square", centred), axes, keepdims=True)
    variance = rules.mul(total, 1 / (rules.size(x, axes) - correction))
    return mean, rules.named(variance, "variance")


def put_back(rules: Rules, x: Ref, order: Sequence[int]) -> Ref:
    """A value in the layout of `Moments` with its axes as the tensor has them."""
    if tuple(order) == tuple(range(len(order))):
        return x
    return Ref(rules.builder.permute(x.id, [order.index(a) for a in range(len(order))]))


# -- rules ----------------------------------------------------------------------------------------


def _var(
    rules: Rules, x: Ref, dim: Axes = None, correction: float | None = None, keepdim: int = 0
) -> Ref:
    return _var_mean(rules, x, dim, correction, keepdim)[0]


def _std(
    rules: Rules, x: Ref, dim: Axes = None, correction: float | None = None, keepdim: int = 0
) -> Ref:
    return rules.unary("sqrt", _var(rules, x, dim, correction, keepdim))


def _var_mean(
    rules: Rules, x: Ref, dim: Axes = None, correction: float | None = None, keepdim: int = 0
) -> tuple[Ref, Ref]:
    found = find_moments(rules, x, dim, correction=1.0 if correction is None else correction)
    rank = len(found.order)
    axes = list(dim) if dim else list(range(rank))
    pair = []
    for value in (found.variance, found.mean):
        whole = put_back(rules, value, found.order)
        pair.append(whole if keepdim else rules.squeeze(whole, axes))
    return pair[0], pair[1]


def along_channels(rules: Rules, vector: Ref, x: Ref) -> Ref:
    """One value for each index of axis 1 of `x`."""
    for _ in rules.node(x).shape[2:]:
        vector = Ref(rules.builder.append_axis(vector.id))
    return vector


def _scaled(rules: Rules, x: Ref, weight: Ref | None, bias: Ref | None) -> Ref:
    """X * weight + bias with one value for each channel."""
    if weight is not None:
        x = rules.mul(x, along_channels(rules, weight, x))
    if bias is not None:
        x = rules.add(x, along_channels(rules, bias, x))
    return x


def _batch_norm(
    rules: Rules, x: Ref, weight: Ref | None, bias: Ref | None, *statistics: Any
) -> tuple[Ref, Ref | None, Ref | None]:
    mean, variance, training, _, eps = statistics
    if training or mean is None or variance is None:
        return _batch_norm_of_batch(rules, x, weight, bias, eps)
    scale = rules.unary("rsqrt", rules.add(along_channels(rules, variance, x), eps))
    centred = rules.named(rules.sub(x, along_channels(rules, mean, x)), "centred")
    result = rules.named(rules.mul(centred, rules.named(scale, "inverse_std")), "normed")
    return _scaled(rules, result, weight, bias), None, None


def _batch_norm_of_batch(
    rules: Rules, x: Ref, weight: Ref | None, bias: Ref | None, eps: float
) -> tuple[Ref, Ref | None, Ref | None]:
    """By the statistics of the batch itself."""
    rank = len(rules.node(x).shape)
    axes = [a for a in range(rank) if a != 1]
    found = find_moments(rules, x, axes)
    inverse = rules.named(rules.unary("rsqrt", rules.add(found.variance, eps)), "inverse_std")
    mean, scale = (put_back(rules, v, found.order) for v in (found.mean, inverse))
    normed = rules.named(rules.mul(rules.sub(x, mean), scale), "normed")
    return (
        _scaled(rules, normed, weight, bias),
        rules.squeeze(mean, axes),
        rules.squeeze(scale, axes),
    )


def _group_norm(
    rules: Rules, x: Ref, weight: Ref | None, bias: Ref | None, *sizes: Any
) -> tuple[Ref, Ref | None, Ref | None]:
    """Arguments as PyTorch has them: images, channels, pixels of a channel, groups, epsilon."""
    _, channels, pixels, num_groups, eps = sizes
    builder = rules.builder
    # What was only widened is read as it was: the statistics are in float32 anyway.
    x = Ref(builder.narrow(x.id))
    weight, bias = (None if v is None else Ref(builder.narrow(v.id)) for v in (weight, bias))
    if rules.node(x).op is Op.VIEW:
        x = Ref(builder.unary("copy", x.id))
    images, _, *space = rules.node(x).shape
    each = channels // num_groups
    grouped_shape = (images, num_groups, each, *(space if pixels > 1 else ()))
    grouped = _reshape(rules, x, grouped_shape)
    num_space = len(grouped_shape) - CHANNEL_RANK - 1
    row_axes = min(num_space, ROW_AXES) or 1
    axes = list(range(CHANNEL_RANK, len(grouped_shape)))
    found = find_moments(rules, grouped, axes, row_axes=row_axes)
    mean, inverse = found.mean, rules.unary("rsqrt", rules.add(found.variance, eps))
    rules.named(inverse, "inverse_std")
    # The channels of a group lie behind the axes of a row in the layout of the statistics.
    layout = (*(1,) * row_axes, each, *(1,) * (num_space - row_axes)) if num_space else (each,)
    gain, shift = (
        None if v is None else _reshape_any(rules, v, (num_groups, *layout)) for v in (weight, bias)
    )
    if not num_space:
        # One row has all of a group: it is normalised where its statistics are.
        normed = rules.named(rules.mul(rules.sub(grouped, mean), inverse), "normed")
        result = normed if gain is None else rules.mul(normed, gain)
        result = result if shift is None else rules.add(result, shift)
        return _reshape_any(rules, result, rules.node(x).shape), mean, inverse
    # A scale and a shift for each channel, so that the pixels are passed over once.
    ones = Ref(builder.const(1.0, (images, num_groups, *layout)))
    scale = rules.mul(inverse, ones if gain is None else gain)
    moved = rules.mul(rules.mul(scale, mean), -1.0)
    moved = moved if shift is None else rules.add(moved, shift)
    per_channel = (images, channels, *(1,) * len(space))
    scale, moved = (
        Ref(builder.fence(_reshape_any(rules, rules.named(v, name), per_channel).id))
        for v, name in ((scale, "scale"), (moved, "shift"))
    )
    return rules.add(rules.mul(x, scale), moved), mean, inverse


def _reshape(rules: Rules, x: Ref, shape: tuple[int, ...]) -> Ref:
    return Ref(rules.builder.view(x.id, shape=shape, strides=contiguous_strides(shape)))


def _reshape_any(rules: Rules, x: Ref, shape: tuple[int, ...]) -> Ref:
    """A reshape of what is stored row by row; a copy of what is not."""
    node = rules.node(x)
    if node.op is not Op.VIEW:
        return _reshape(rules, x, shape)
    base = rules.node(Ref(node.inputs[0]))
    plain = node.offset == 0 and node.strides == contiguous_strides(node.shape)
    if plain and math.prod(node.shape) == base.num_elems:
        return _reshape(rules, Ref(base.id), shape)
    return _reshape(rules, Ref(rules.builder.unary("copy", x.id)), shape)


NORMS: dict[str, Callable[..., Any]] = {
    "var": _var,
    "std": _std,
    "var_mean": _var_mean,
    "native_batch_norm": _batch_norm,
    "native_group_norm": _group_norm,
}
"""The rule for each operator."""
