"""Which bytes a view touches, and whether two views of one tensor share any.

Law: `is_overlapping` never says no to views that share a byte, and `is_covering` never says yes to
a view that leaves a byte of the other out. Both are exact for boxes and for strided views whose
strides nest, which includes tiles of a row-major tensor in HBM; a search that grows too long ends
on the safe side.
Not covered: views of different tensors that share addresses; that is a Placement's matter.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from nki_agent.isa.signature import Operand, Pattern

SEARCH_MAX = 1024
"""Steps after which two strided views count as overlapping."""

Steps = tuple[tuple[int, int], ...]


class Form(NamedTuple):
    """The bytes of a view in a normal form, apart from where it starts.

    In each of its partitions the view holds runs of `run` bytes, repeated by `steps` of (stride,
    count), largest stride first, all positive. `low` is where the first byte lies relative to the
    operand's offset, `extent` how far it is from there to the end of the last.
    """

    low: int
    extent: int
    run: int
    steps: Steps
    partition_start: int
    partition_step: int
    partition_count: int

    @property
    def is_solid(self) -> bool:
        """Whether the view is a box without holes."""
        return not self.steps and (self.partition_step == 1 or self.partition_count == 1)

    @property
    def partition_end(self) -> int:
        """One past the last partition."""
        return self.partition_start + self.partition_step * (self.partition_count - 1) + 1


def find_form(operand: Operand) -> Form:
    """The form of a tensor operand."""
    return make_form(operand.pattern, operand.dtype.itemsize)


@lru_cache(maxsize=1 << 14)
def make_form(pattern: Pattern, itemsize: int) -> Form:
    """Normalise a pattern: no signs, no broadcast axes, contiguous axes merged."""
    low, high = pattern.extent
    axes = sorted((abs(stride), count) for stride, count in pattern.free if stride and count > 1)
    run, steps = itemsize, list[tuple[int, int]]()
    for stride, count in axes:
        if not steps and stride <= run:
            run += stride * (count - 1)
        elif steps and stride == steps[-1][0]:
            steps[-1] = (stride, steps[-1][1] + count - 1)
        elif steps and stride == steps[-1][0] * steps[-1][1]:
            steps[-1] = (steps[-1][0], steps[-1][1] * count)
        else:
            steps.append((stride, count))
    start, step, count = pattern.partition or (0, 1, 1)
    return Form(low, high - low + itemsize, run, tuple(reversed(steps)), start, step, count)


def is_overlapping(
    first: Form, second: Form, *, first_offset: int = 0, second_offset: int = 0
) -> bool:
    """Whether two views of one tensor share a byte; True where that is too long to find out."""
    if not _share_partition(first, second):
        return False
    delta = second_offset + second.low - first_offset - first.low
    return _share_byte(first, second, delta)


def is_covering(
    first: Form, second: Form, *, first_offset: int = 0, second_offset: int = 0
) -> bool:
    """Whether the first view surely touches every byte of the second."""
    delta = second_offset + second.low - first_offset - first.low
    if first == second and delta == 0:
        return True
    inside = first.partition_start <= second.partition_start
    inside = inside and second.partition_end <= first.partition_end
    if not inside or (first.partition_step != 1 and first.partition_count > 1):
        return False
    counts = dict(second.steps)
    for stride, count in first.steps:
        skipped, delta = divmod(delta, stride)
        if skipped < 0 or skipped + counts.pop(stride, 1) > count:
            return False
    length = second.run + sum(stride * (count - 1) for stride, count in counts.items())
    return delta >= 0 and delta + length <= first.run


def _share_partition(first: Form, second: Form) -> bool:
    if first.partition_end <= second.partition_start:
        return False
    if second.partition_end <= first.partition_start:
        return False
    if first.partition_step == second.partition_step == 1:
        return True
    delta = second.partition_start - first.partition_start
    return _meet(
        _axes(
            ((first.partition_step, first.partition_count),),
            ((second.partition_step, second.partition_count),),
        ),
        delta,
        (1, 1),
    )


def _share_byte(first: Form, second: Form, delta: int) -> bool:
    if delta >= first.extent or -delta >= second.extent:
        return False
    if not first.steps and not second.steps:
        return True
    return _meet(_axes(first.steps, second.steps), delta, (first.run, second.run))


Axis = tuple[int, int, int]


def _axes(first: Steps, second: Steps) -> tuple[Axis, ...]:
    """Strides of both, largest first, with the most steps back and forward between the two."""
    back, forward = dict(first), dict(second)
    strides = sorted(back.keys() | forward.keys(), reverse=True)
    return tuple((s, back.get(s, 1) - 1, forward.get(s, 1) - 1) for s in strides)


def _meet(axes: tuple[Axis, ...], delta: int, runs: tuple[int, int]) -> bool:
    """Whether some choice of steps brings the second run, `delta` bytes on, onto the first."""
    rests = [(0, 0)]
    for stride, back, forward in reversed(axes):
        low, high = rests[-1]
        rests.append((low - stride * back, high + stride * forward))
    rests.reverse()
    pending = [(0, delta)]
    for _ in range(SEARCH_MAX):
        if not pending:
            return False
        level, distance = pending.pop()
        low, high = rests[level]
        if distance + low >= runs[0] or distance + high <= -runs[1]:
            continue
        if level == len(axes):
            return True
        stride, back, forward = axes[level]
        low, high = rests[level + 1]
        least = max(-back, -((runs[1] - 1 + distance + high) // stride))
        most = min(forward, (runs[0] - 1 - distance - low) // stride)
        if most - least > SEARCH_MAX:
            return True
        pending.extend((level + 1, distance + stride * step) for step in range(least, most + 1))
    return True
