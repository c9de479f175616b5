"""Where an operation reads a flat array: nested loops of sizes and strides.

Law: a loop nest says which elements are read in which order, however many views made it. Loops that
run on into one another are one loop; a loop of one turn is none. So the rank of a tensor, and every
chain of reshapes and transposes, leave no trace but the order of reading.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Loop = tuple[int, int]
"""So many turns, and the stride between two."""
Nest = tuple[Loop, ...]
"""From the outermost."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of a flat array: for each axis its loops, from an offset on."""

    axes: tuple[Nest, ...]
    offset: int = 0


def flat(num_elems: int) -> Nest:
    """All elements in the order in which they are stored."""
    return ((num_elems, 1),) if num_elems > 1 else ()


def read_view(shape: Sequence[int], strides: Sequence[int], offset: int) -> Reading:
    """A strided view; an axis of size 1 has no loop."""
    axes = tuple(
        ((size, stride),) if size != 1 else () for size, stride in zip(shape, strides, strict=True)
    )
    return Reading(axes, offset)


def is_whole(reading: Reading, num_elems: int) -> bool:
    """Whether it reads every element once, in order."""
    loops = merge([loop for axis in reading.axes for loop in axis])
    return reading.offset == 0 and loops == flat(num_elems)


def merge(loops: Sequence[Loop]) -> Nest:
    """The same reading with loops that run on into one another as one."""
    found: list[Loop] = []
    for size, stride in loops:
        if size == 1:
            continue
        if found and found[-1][1] == stride * size:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return tuple(found)


def merge_together(
    sizes: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Loops that several readings share, merged where that is right for all of them."""
    kept: list[tuple[int, tuple[int, ...]]] = []
    for size, *steps in zip(sizes, *strides, strict=True):
        if size == 1:
            continue
        if kept and all(
            outer == inner * size for outer, inner in zip(kept[-1][1], steps, strict=True)
        ):
            kept[-1] = (kept[-1][0] * size, tuple(steps))
        else:
            kept.append((size, tuple(steps)))
    merged = tuple(tuple(steps[i] for _, steps in kept) for i in range(len(strides)))
    return tuple(size for size, _ in kept), merged


def compose(
    outer: Reading, sizes: Sequence[int], inner: Sequence[int], start: int
) -> Reading | None:
    """Read through an array that only moves: its element at flat place p is the one of a source.

    `sizes` are its loops, `inner` the source's strides at them, `start` the source's offset. None
    where a loop of the reader does not fall apart along those loops.
    """
    own = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    places = [(outer.offset // step) % size for step, size in zip(own, sizes, strict=True)]
    last = list(places)
    axes: list[Nest] = []
    for axis in outer.axes:
        found: list[Loop] = []
        for size, stride in axis:
            parts = _split(size, stride, sizes=sizes, own=own)
            if parts is None:
                return None
            for turns, step, index in parts:
                if index >= 0:
                    last[index] += (turns - 1) * step
                found.append((turns, step * inner[index] if index >= 0 else 0))
        axes.append(tuple(found))
    if any(place >= size for place, size in zip(last, sizes, strict=True)):
        return None
    offset = start + sum(place * step for place, step in zip(places, inner, strict=True))
    return Reading(tuple(axes), offset)


def _split(
    turns: int, stride: int, *, sizes: Sequence[int], own: Sequence[int]
) -> list[tuple[int, int, int]] | None:
    """A reader's loop as loops of (turns, step, index of the array's loop), from the outermost."""
    if stride == 0:
        return [(turns, 0, -1)]
    parts: list[tuple[int, int, int]] = []
    while turns > 1:
        index = next((i for i, step in enumerate(own) if step <= stride), -1)
        if index < 0 or stride % own[index]:
            return None
        step = stride // own[index]
        if step * turns <= sizes[index]:
            parts.append((turns, step, index))
            break
        if step >= sizes[index] or sizes[index] % step or turns % (sizes[index] // step):
            return None
        part = sizes[index] // step
        parts.append((part, step, index))
        turns //= part
        stride = own[index] * sizes[index]
    return parts[::-1]


def align(nests: Sequence[Nest]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]] | None:
    """Loops of the same number of elements as the same loops; None where they don't fit."""
    cuts = sorted({cut for nest in nests for cut in _cuts(nest)})
    if any(upper % lower for lower, upper in pairwise(cuts)):
        return None
    sizes = tuple(upper // lower for lower, upper in pairwise(cuts))[::-1]
    strides = tuple(tuple(_steps(nest, cuts)) for nest in nests)
    return sizes, strides


def _cuts(nest: Nest) -> list[int]:
    """Products of the sizes of the innermost loops."""
    cuts = [1]
    for size, _ in reversed(nest):
        cuts.append(cuts[-1] * size)
    return cuts


def _steps(nest: Nest, cuts: Sequence[int]) -> list[int]:
    """The stride at each loop between two cuts, from the outermost."""
    steps = []
    inside = 1
    loops = list(reversed(nest))
    for lower, _ in pairwise(cuts):
        while loops and lower >= inside * loops[0][0]:
            inside *= loops.pop(0)[0]
        steps.append(loops[0][1] * (lower // inside) if loops else 0)
    return steps[::-1]
