"""Operators that move a window along the last axes: convolutions and pooling.

Law: what lies outside the input is zero for a convolution and the neutral element for a pool; a pad
of zeros that only a convolution reads is the convolution's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nki_agent.builtin.graph import (
    PADDED,
    Node,
    Op,
    Shape,
    UnsupportedError,
    Window,
    contiguous_strides,
)
from nki_agent.builtin.moves import cut, pad_axes
from nki_agent.builtin.norms import along_channels
from nki_agent.builtin.rules import Ref, Rules
from nki_agent.builtin.spread import Taps, spread_pixels, turn_weight

IMAGE_AXES = 2
"""Images and channels, before the axes that a window moves along."""
RANK_MAX = 3
TRANSPOSED_RANK_MAX = 2


def _numbers(value: int | Sequence[int], rank: int) -> Shape:
    """One number for each axis."""
    if isinstance(value, int):
        return (value,) * rank
    found = tuple(value) * rank if len(value) == 1 else tuple(value)
    if len(found) != rank:
        raise UnsupportedError("a window", f"{len(found)} axes over {rank} axes of pixels")
    return found


def _stored(rules: Rules, x: Ref) -> Ref:
    """A value that lies row by row: itself, a plain reshape, or a copy."""
    node = rules.node(x)
    if node.op is not Op.VIEW:
        return x
    base = rules.node(Ref(node.inputs[0]))
    plain = node.offset == 0 and node.strides == contiguous_strides(node.shape)
    if plain and node.num_elems == base.num_elems:
        return x
    return Ref(rules.builder.unary("copy", x.id))


def _image_rank(rules: Rules, x: Ref, origin: str) -> int:
    rank = len(rules.node(x).shape) - IMAGE_AXES
    if not 1 <= rank <= RANK_MAX:
        raise UnsupportedError(
            origin, f"its input has {rank + IMAGE_AXES} axes", hint="pass images, channels, pixels"
        )
    return rank


# -- convolutions ---------------------------------------------------------------------------------


def _convolution(rules: Rules, x: Ref, weight: Ref, bias: Ref | None, *options: Any) -> Ref:
    strides, paddings, dilations, transposed, output_paddings, groups = options
    rank = _image_rank(rules, x, "convolution")
    taps = Taps(
        kernel=rules.node(weight).shape[IMAGE_AXES:],
        stride=_numbers(strides, rank),
        dilation=_numbers(dilations, rank),
        padding=_numbers(paddings, rank),
    )
    if transposed:
        extra = _numbers(output_paddings, rank)
        made = _transposed(rules, x, weight, taps, extra=extra, groups=groups)
    else:
        made = _plain(rules, x, weight, taps, groups=groups)
    made = Ref(rules.builder.cast(made.id, rules.node(x).dtype))
    return made if bias is None else rules.add(made, along_channels(rules, bias, made))


def _plain(rules: Rules, x: Ref, weight: Ref, taps: Taps, *, groups: int) -> Ref:
    inner, before, after = _without_pad(rules, x)
    pair = _operands(rules, inner, weight)
    sizes = rules.node(pair[0]).shape[IMAGE_AXES:]
    pixels = tuple(
        (n + b + a + 2 * p - d * (k - 1) - 1) // s + 1
        for n, b, a, p, d, k, s in zip(
            sizes, before, after, taps.padding, taps.dilation, taps.kernel, taps.stride, strict=True
        )
    )
    window = Window(
        kernel=taps.kernel,
        stride=taps.stride,
        dilation=taps.dilation,
        before=tuple(p + b for p, b in zip(taps.padding, before, strict=True)),
        groups=groups,
    )
    return _windowed(rules, pair, window, pixels)


def _transposed(rules: Rules, x: Ref, weight: Ref, taps: Taps, *, extra: Shape, groups: int) -> Ref:
    """Phase by phase where that is covered, else as a plain one over pixels that lie apart."""
    sizes = rules.node(x).shape[IMAGE_AXES:]
    pixels = taps.pixels_of_transposed(sizes, extra)
    is_padded = _without_pad(rules, x)[0] != x
    is_plain = len(sizes) <= TRANSPOSED_RANK_MAX and groups == 1 and not is_padded
    if is_plain and taps.reach_all(sizes[-1], pixels[-1]):
        window = Window(
            kernel=taps.kernel,
            stride=taps.stride,
            dilation=taps.dilation,
            before=taps.padding,
            is_transposed=True,
        )
        return _windowed(rules, _operands(rules, x, weight), window, pixels)
    x, weight = _operands(rules, x, weight)
    apart = spread_pixels(rules, x, taps.stride)
    before = tuple(
        d * (k - 1) - p for d, k, p in zip(taps.dilation, taps.kernel, taps.padding, strict=True)
    )
    for axis, count in enumerate(before, start=IMAGE_AXES):
        if count < 0:
            size = rules.node(apart).shape[axis]
            apart = _stored(rules, cut(rules, apart, axis, -count, size))
    window = Window(
        kernel=taps.kernel,
        stride=(1,) * len(sizes),
        dilation=taps.dilation,
        before=tuple(max(0, count) for count in before),
        groups=groups,
    )
    return _windowed(rules, (apart, turn_weight(rules, weight, groups)), window, pixels)


def _windowed(rules: Rules, pair: tuple[Ref, Ref], window: Window, pixels: Shape) -> Ref:
    x, weight = (rules.node(v) for v in pair)
    channels = weight.shape[1] if window.is_transposed else weight.shape[0]
    kind = _kind(window.groups, x.shape[1], channels)
    shape = (x.shape[0], channels, *pixels)
    ids = pair[0].id, pair[1].id
    return Ref(rules.builder.windowed(Op.CONVOLUTION, kind, ids, shape, window=window))


def _kind(groups: int, channels_in: int, channels_out: int) -> str:
    if groups == 1:
        return "dense"
    return "depthwise" if groups == channels_in == channels_out else "grouped"


def _operands(rules: Rules, x: Ref, weight: Ref) -> tuple[Ref, Ref]:
    """Both as they lie in HBM; what was only widened is taken as it was."""
    narrow = Ref(rules.builder.narrow(x.id)), Ref(rules.builder.narrow(weight.id))
    dtypes = {rules.node(v).dtype for v in narrow}
    pair = narrow if len(dtypes) == 1 else (x, weight)
    dtypes = {rules.node(v).dtype for v in pair}
    if len(dtypes) > 1 or not next(iter(dtypes)).is_float:
        raise UnsupportedError(
            "convolution",
            f"its operands are {' and '.join(sorted(d.value for d in dtypes))}",
            hint="cast both to one floating-point dtype",
        )
    return _stored(rules, pair[0]), _stored(rules, pair[1])


def _without_pad(rules: Rules, x: Ref) -> tuple[Ref, Shape, Shape]:
    """What a pad of zeros was put around, and how many on each side of each axis of pixels."""
    rank = len(rules.node(x).shape)
    before, after = [0] * rank, [0] * rank
    node = rules.node(x)
    if node.op is Op.POOL and node.function == PADDED and node.value == 0.0:
        assert node.window is not None
        inner = rules.node(Ref(node.inputs[0]))
        sizes = zip(node.shape[IMAGE_AXES:], inner.shape[IMAGE_AXES:], strict=True)
        ends = [whole - n - b for (whole, n), b in zip(sizes, node.window.before, strict=True)]
        return Ref(inner.id), node.window.before, tuple(ends)
    while (found := _padded(rules, node)) is not None:
        inner, axis, first = found
        before[axis] += first
        after[axis] += node.shape[axis] - inner.shape[axis] - first
        node = inner
    if any(before[:IMAGE_AXES]) or any(after[:IMAGE_AXES]):
        return x, (0,) * (rank - IMAGE_AXES), (0,) * (rank - IMAGE_AXES)
    return Ref(node.id), tuple(before[IMAGE_AXES:]), tuple(after[IMAGE_AXES:])


def _padded(rules: Rules, node: Node) -> tuple[Node, int, int] | None:
    """The value between zeros, the axis, and the zeros in front; None if it is no such thing."""
    if node.op is not Op.PARTS:
        return None
    parts = [rules.node(Ref(rules.node(Ref(i)).inputs[0])) if _is_copy(rules, i) else
             rules.node(Ref(i)) for i in node.inputs]  # fmt: skip
    inside = [p for p in parts if p.op is not Op.CONST]
    if len(inside) != 1 or any(p.value != 0.0 for p in parts if p.op is Op.CONST):
        return None
    inner = inside[0]
    axes = [i for i, (a, b) in enumerate(zip(node.shape, inner.shape, strict=True)) if a != b]
    if len(axes) != 1:
        return None
    place = node.places[parts.index(inner)]
    return inner, axes[0], place // contiguous_strides(node.shape)[axes[0]]


def _is_copy(rules: Rules, node_id: int) -> bool:
    node = rules.node(Ref(node_id))
    return node.op is Op.UNARY and node.function == "copy"


# -- pools ----------------------------------------------------------------------------------------


def _max_pool(  # noqa: PLR0913, PLR0917 - PyTorch's own arguments
    rules: Rules,
    x: Ref,
    kernel_size: int | Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: int = 0,
) -> tuple[Ref, None]:
    rank = _image_rank(rules, x, "max_pool")
    kernel = _numbers(kernel_size, rank)
    window = Window(
        kernel=kernel,
        stride=_numbers(stride, rank) if stride else kernel,
        dilation=_numbers(dilation, rank),
        before=_numbers(padding, rank),
    )
    return _pool(rules, "maximum", x, window, ceil_mode=bool(ceil_mode)), None


def _avg_pool(  # noqa: PLR0913, PLR0917 - PyTorch's own arguments
    rules: Rules,
    x: Ref,
    kernel_size: int | Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    ceil_mode: int = 0,
    count_include_pad: int = 1,
    divisor_override: int | None = None,
) -> Ref:
    rank = _image_rank(rules, x, "avg_pool")
    kernel = _numbers(kernel_size, rank)
    before = _numbers(padding, rank)
    if ceil_mode or (any(before) and not count_include_pad):
        raise UnsupportedError(
            "avg_pool", "windows that are divided by what lies inside are not covered"
        )
    window = Window(
        kernel=kernel,
        stride=_numbers(stride, rank) if stride else kernel,
        dilation=(1,) * rank,
        before=before,
    )
    total = _pool(rules, "add", x, window, ceil_mode=False)
    return rules.mul(total, 1 / (divisor_override or math.prod(kernel)))


def _adaptive_avg_pool(rules: Rules, x: Ref, output_size: int | Sequence[int]) -> Ref:
    rank = _image_rank(rules, x, "adaptive_avg_pool")
    sizes = rules.node(x).shape[IMAGE_AXES:]
    wanted = _numbers(output_size, rank)
    if any(n % w for n, w in zip(sizes, wanted, strict=True)):
        raise UnsupportedError("adaptive_avg_pool", "its windows differ in size")
    kernel = tuple(n // w for n, w in zip(sizes, wanted, strict=True))
    if all(w == 1 for w in wanted):
        return rules.mean(x, range(-rank, 0), keepdims=True)
    return _avg_pool(rules, x, kernel)


def _pool(rules: Rules, function: str, x: Ref, window: Window, *, ceil_mode: bool) -> Ref:
    x = _stored(rules, x)
    node = rules.node(x)
    pixels = []
    for n, k, s, d, p in zip(
        node.shape[IMAGE_AXES:],
        window.kernel,
        window.stride,
        window.dilation,
        window.before,
        strict=True,
    ):
        room = n + 2 * p - d * (k - 1) - 1
        count = -(-room // s) + 1 if ceil_mode else room // s + 1
        # No window begins in what is put behind.
        pixels.append(count - ((count - 1) * s >= n + p))
    shape = (*node.shape[:IMAGE_AXES], *pixels)
    return Ref(rules.builder.windowed(Op.POOL, function, (x.id,), shape, window))


def _pad(rules: Rules, x: Ref, pad: Sequence[int], value: float | None = None) -> Ref:
    """Images in one pass, anything else axis by axis."""
    return _pad_images(rules, x, pad, value or 0.0) or pad_axes(rules, x, pad, value)


def _pad_images(rules: Rules, x: Ref, pad: Sequence[int], value: float) -> Ref | None:
    """A pool of single elements whose outside is this number; None where no image is padded."""
    node = rules.node(x)
    rank = len(node.shape) - IMAGE_AXES
    ends = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)][::-1]
    if rank not in (2, 3) or len(ends) > rank or not node.dtype.is_float:
        return None
    ends = [(0, 0)] * (rank - len(ends)) + ends
    if sum(any(both) for both in ends) <= 1 or min(min(both) for both in ends) < 0:
        return None
    x = _stored(rules, x)
    ones = (1,) * rank
    window = Window(
        kernel=ones, stride=ones, dilation=ones, before=tuple(before for before, _ in ends)
    )
    sizes = node.shape[IMAGE_AXES:]
    pixels = [n + sum(both) for n, both in zip(sizes, ends, strict=True)]
    shape = (*node.shape[:IMAGE_AXES], *pixels)
    made = rules.builder.windowed(Op.POOL, PADDED, (x.id,), shape, window)
    rules.builder.nodes[made] = replace(rules.builder.nodes[made], value=value)
    return Ref(made)


# -- more pixels ----------------------------------------------------------------------------------


def _upsample_nearest(rules: Rules, x: Ref, output_size: Sequence[int], *_: object) -> Ref:
    """Each pixel several times: a walk with strides of 0."""
    x = _stored(rules, x)
    node = rules.node(x)
    sizes = node.shape[IMAGE_AXES:]
    if any(w % n for n, w in zip(sizes, output_size, strict=True)):
        raise UnsupportedError("upsample_nearest", "its factors are no whole numbers")
    strides = contiguous_strides(node.shape)
    shape, walk = list(node.shape[:IMAGE_AXES]), list(strides[:IMAGE_AXES])
    for n, w, stride in zip(sizes, output_size, strides[IMAGE_AXES:], strict=True):
        shape += [n, w // n]
        walk += [stride, 0]
    builder = rules.builder
    view = builder.view(builder.base_of(x.id), shape=tuple(shape), strides=tuple(walk))
    made = builder.unary("copy", view)
    whole = (*node.shape[:IMAGE_AXES], *output_size)
    return Ref(builder.view(made, shape=whole, strides=contiguous_strides(whole)))


WINDOWS: dict[str, Callable[..., Any]] = {
    "constant_pad_nd": _pad,
    "convolution": _convolution,
    **{f"max_pool{n}d_with_indices": _max_pool for n in (2, 3)},
    **{f"avg_pool{n}d": _avg_pool for n in (1, 2, 3)},
    **{f"_adaptive_avg_pool{n}d": _adaptive_avg_pool for n in (2, 3)},
    "adaptive_avg_pool1d": _adaptive_avg_pool,
    **{f"upsample_nearest{n}d": _upsample_nearest for n in (1, 2, 3)},
}
"""The rule for each operator."""
