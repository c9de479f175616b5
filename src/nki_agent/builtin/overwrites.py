"""What a tensor holds after a part of it was written in place.

Law: the tensor is a new value, of which the part is one region and what was there before the
others. A part is a box: a range of each axis.
"""

from __future__ import annotations

import math

from nki_agent.builtin.graph import Op, Shape, UnsupportedError, contiguous_strides
from nki_agent.builtin.moves import cut
from nki_agent.builtin.rules import Ref, Rules


def overwrite(
    rules: Rules, whole: Ref, part: Ref, *, strides: Shape, offset: int, origin: str
) -> Ref:
    """`whole` with `part` in the place that its strides and its offset say.

    Raises:
        UnsupportedError: the place is no box.
    """
    builder, shape = rules.builder, rules.node(whole).shape
    counts = _box(shape, rules.node(part).shape, strides)
    if counts is None:
        raise UnsupportedError(
            origin,
            "it writes into a part of another tensor that is no range of each axis",
            hint="use the form without `_`, and `torch.where`",
        )
    walk = contiguous_strides(shape)
    starts = [offset // step % size for step, size in zip(walk, shape, strict=True)]
    stored = builder.unary("copy", part.id) if rules.node(part).op is Op.VIEW else part.id
    written = builder.view(stored, shape=counts, strides=contiguous_strides(counts))
    if counts == shape:
        return Ref(written)
    inputs, places = [written], [offset]
    rest = whole
    for axis, (start, count) in enumerate(zip(starts, counts, strict=True)):
        # Before and behind the range of this axis, within the ranges of those before it.
        for begin, end in ((0, start), (start + count, shape[axis])):
            if begin < end:
                inputs.append(cut(rules, rest, axis, begin, end).id)
                corner = [*starts[:axis], begin, *(0 for _ in shape[axis + 1 :])]
                places.append(sum(i * step for i, step in zip(corner, walk, strict=True)))
        rest = cut(rules, rest, axis, start, start + count)
    return Ref(builder.parts(shape, rules.node(whole).dtype, inputs, tuple(places)))


def _box(whole: Shape, part: Shape, strides: Shape) -> Shape | None:
    """Elements of each axis of the whole that the part takes; None if it is no box."""
    walk = contiguous_strides(whole)
    counts, axis = [1] * len(whole), 0
    for count, stride in zip(part, strides, strict=True):
        if count == 1:
            continue
        while axis < len(whole) and (walk[axis] != stride or whole[axis] == 1):
            axis += 1
        if axis == len(whole) or count > whole[axis]:
            return None
        counts[axis] = count
        axis += 1
    return tuple(counts) if math.prod(counts) == math.prod(part) else None
