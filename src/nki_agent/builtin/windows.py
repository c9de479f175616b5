"""Operators that move a window along the last axes: convolutions and pooling.

Law: what lies outside the input is zero for a convolution and the neutral element for a pool; a pad
of zeros that only a convolution reads is the convolution's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nki_agent.builtin.graph import Node, Op, Shape, UnsupportedError, Window, contiguous_strides
from nki_agent.builtin.norms import along_channels
from nki_agent.builtin.rules import Ref, Rules

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
    inner, before, after = _without_pad(rules, x)
    pair = _operands(rules, inner, weight)
    x_node, w_node = (rules.node(v) for v in pair)
    stride, dilation = _numbers(strides, rank), _numbers(dilations, rank)
    padding = _numbers(paddings, rank)
    kernel = w_node.shape[IMAGE_AXES:]
    sizes = x_node.shape[IMAGE_AXES:]
    if transposed:
        _require_plain_transposed(rank, groups, before, after)
        extra = _numbers(output_paddings, rank)
        pixels = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, s, p, d, k, e in zip(
                sizes, stride, padding, dilation, kernel, extra, strict=True
            )
        )
        channels = w_node.shape[1]
    else:
        pixels = tuple(
            (n + b + a + 2 * p - d * (k - 1) - 1) // s + 1
            for n, b, a, p, d, k, s in zip(
                sizes, before, after, padding, dilation, kernel, stride, strict=True
            )
        )
        channels = w_node.shape[0]
    window = Window(
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        before=tuple(p + b for p, b in zip(padding, before, strict=True)),
        groups=groups,
        is_transposed=bool(transposed),
    )
    kind = _kind(groups, x_node.shape[1], channels)
    shape = (x_node.shape[0], channels, *pixels)
    made = Ref(
        rules.builder.windowed(Op.CONVOLUTION, kind, (pair[0].id, pair[1].id), shape, window=window)
    )
    made = Ref(rules.builder.cast(made.id, rules.node(x).dtype))
    return made if bias is None else rules.add(made, along_channels(rules, bias, made))


def _kind(groups: int, channels_in: int, channels_out: int) -> str:
    if groups == 1:
        return "dense"
    return "depthwise" if groups == channels_in == channels_out else "grouped"


def _require_plain_transposed(rank: int, groups: int, before: Shape, after: Shape) -> None:
    if rank > TRANSPOSED_RANK_MAX or groups != 1 or any(before + after):
        raise UnsupportedError(
            "convolution",
            "a transposed convolution of volumes, in groups or of padded images is not covered",
        )


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
    "convolution": _convolution,
    **{f"max_pool{n}d_with_indices": _max_pool for n in (2, 3)},
    **{f"avg_pool{n}d": _avg_pool for n in (1, 2, 3)},
    **{f"_adaptive_avg_pool{n}d": _adaptive_avg_pool for n in (2, 3)},
    "adaptive_avg_pool1d": _adaptive_avg_pool,
    **{f"upsample_nearest{n}d": _upsample_nearest for n in (1, 2, 3)},
}
"""The rule for each operator."""
