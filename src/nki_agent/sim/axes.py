"""Access patterns as NumPy strides, and shapes in which several patterns can be walked together.

An axis is (stride in bytes, count), outermost first. Elements are numbered in row-major order of
the axes; two operands with the same number of elements but other axes, [P, 4, 8] beside [P, 32],
are walked together by splitting axes until both have one shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import mul

Axes = tuple[tuple[int, int], ...]
Shape = tuple[int, ...]


def count_elements(axes: Axes) -> int:
    """Elements that the axes walk over."""
    return math.prod(count for _, count in axes)


def merge_axes(axes: Axes) -> Axes:
    """The same walk with as few axes as can be: axes of one element dropped, neighbours joined."""
    merged: list[tuple[int, int]] = []
    for stride, count in axes:
        if count == 1:
            continue
        if merged and merged[-1][0] == stride * count:
            merged[-1] = (stride, merged[-1][1] * count)
        else:
            merged.append((stride, count))
    return tuple(merged)


def find_common_shape(walks: Sequence[Axes], *, keep: int | None = None) -> Shape | None:
    """A shape into which every walk can be split, or None.

    `keep` asks for an axis boundary with so many elements inside of it: the partition axis stays
    the first axis of the shape and a free one stays behind it, even where they have one element.
    """
    total = count_elements(walks[0])
    cuts = {1, total}
    for axes in walks:
        counts = [count for _, count in reversed(merge_axes(axes))]
        cuts.update(accumulate(counts, mul))
    if keep is not None:
        cuts.add(keep)
    ordered = sorted(cuts)
    pairs = list(pairwise(ordered))
    if any(outer % inner for inner, outer in pairs):
        return None
    shape = tuple(outer // inner for inner, outer in reversed(pairs))
    if keep == total:
        shape = (1, *shape)
    if keep == 1:
        shape = (*shape, 1)
    return shape or (1,)


def split_axes(axes: Axes, shape: Shape) -> tuple[int, ...] | None:
    """Strides in bytes of the same walk seen with this shape; None where axes do not split so."""
    merged = list(merge_axes(axes))
    stride, left = merged.pop() if merged else (0, 1)
    strides: list[int] = []
    for count in reversed(shape):
        if left == 1 and merged and count > 1:
            stride, left = merged.pop()
        if left % count:
            return None
        strides.append(stride)
        stride, left = stride * count, left // count
    return tuple(reversed(strides))


def natural_shape(axes: Axes) -> Shape:
    """The shape of the merged walk."""
    return tuple(count for _, count in merge_axes(axes)) or (1,)
