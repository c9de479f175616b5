"""Transposed convolutions as plain ones: pixels lie a stride apart, and the weights are turned.

Law: the plain convolution of what is made here equals the transposed one. It multiplies zeros
between the pixels, so that it is for what the phases of `print_transposed` do not cover.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nki_agent.builtin.graph import Shape, contiguous_strides
from nki_agent.builtin.rules import Ref, Rules

IMAGE_AXES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Taps:
    """How a convolution moves along its axes of pixels, as PyTorch says it."""

    kernel: Shape
    stride: Shape
    dilation: Shape
    padding: Shape

    def pixels_of_transposed(self, sizes: Shape, extra: Shape) -> Shape:
        """Pixels of the result, `extra` of them behind."""
        each = zip(sizes, self.stride, self.padding, self.dilation, self.kernel, extra, strict=True)
        return tuple((n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, s, p, d, k, e in each)

    def reach_all(self, size: int, count: int) -> bool:
        """Whether each of `count` pixels of the last axis takes some of the `size` pixels."""
        stride, before, step = self.stride[-1], self.padding[-1], self.dilation[-1]
        taken = {
            index * stride + tap * step - before
            for index in range(size)
            for tap in range(self.kernel[-1])
        }
        return taken.issuperset(range(count))


def spread_pixels(rules: Rules, x: Ref, stride: Shape) -> Ref:
    """The pixels of `x`, stored row by row, each followed by zeros up to the stride."""
    if math.prod(stride) == 1:
        return x
    builder, node = rules.builder, rules.node(x)
    images, channels, *sizes = node.shape
    phases = [IMAGE_AXES + 2 * i + 1 for i in range(len(sizes))]
    head = (images, channels)

    def shape_of(counts: list[int]) -> Shape:
        return (*head, *(n for pair in zip(sizes, counts, strict=True) for n in pair))

    one = shape_of([1] * len(sizes))
    whole = shape_of(list(stride))
    steps = contiguous_strides(whole)
    inputs = [builder.view(builder.base_of(x.id), shape=one, strides=contiguous_strides(one))]
    places = [0]
    for index, phase in enumerate(phases):
        if stride[index] == 1:
            continue
        # Behind the pixels along this axis; along those before it only beside the pixels.
        counts = [1] * index + [stride[index] - 1, *stride[index + 1 :]]
        inputs.append(builder.const(0.0, shape_of(counts), node.dtype))
        places.append(steps[phase])
    made = builder.parts(whole, node.dtype, inputs, tuple(places))
    apart = (*head, *(n * s for n, s in zip(sizes, stride, strict=True)))
    return Ref(builder.view(made, shape=apart, strides=contiguous_strides(apart)))


def turn_weight(rules: Rules, weight: Ref, groups: int) -> Ref:
    """Weights [in, out / groups, taps] as [out, in / groups, taps from the last to the first]."""
    builder, node = rules.builder, rules.node(weight)
    channels_in, channels_out, *kernel = node.shape
    each, taps = channels_in // groups, math.prod(kernel)
    across = channels_out * taps
    turned = builder.view(
        builder.base_of(weight.id),
        shape=(groups, channels_out, each, taps),
        strides=(each * across, taps, across, -1),
        offset=taps - 1,
        is_moved=True,
    )
    stored = builder.unary("copy", turned)
    shape = (groups * channels_out, each, *kernel)
    return Ref(builder.view(stored, shape=shape, strides=contiguous_strides(shape)))
