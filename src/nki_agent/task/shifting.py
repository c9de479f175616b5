"""Which inputs the reference ignores a shift of, or passes it through, and by which rows.

A row of values that are all far below zero shows what takes zero for the least value there is: a
row maximum that starts at 0, padding with 0, clearing with 0 between the steps of a top-k. The rows
of an input are places that may be shifted one by one. Where products make the rows, a shift of all
keys moves the scores of each query by an amount of its own, and of all weights or of a bias alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""The reference in float64: outputs by name."""

SHIFT: Final = 60.0
_SAME: Final = 1e-6


def ignores_shift(
    run: Run, inputs: Mapping[str, Array], wanted: Mapping[str, Array], *, name: str, passes: bool
) -> bool:
    """Whether no output changes as all of an input is shifted; or, if it `passes`, by as much."""
    outputs = run({**inputs, name: inputs[name].astype(np.float64) + SHIFT})
    return all(
        _is_near(outputs[n], wanted[n]) or (passes and _is_near(outputs[n] - SHIFT, wanted[n]))
        for n in wanted
    )


def find_free_axes(
    run: Run, inputs: Mapping[str, Array], wanted: Mapping[str, Array], *, name: str
) -> tuple[int, ...]:
    """The axes of a shiftable input along which each place may have a shift of its own."""

    def is_stepped(axis: int, part: slice) -> bool:
        moved = inputs[name].astype(np.float64)
        moved[(*[slice(None)] * axis, part)] += SHIFT
        outputs = run({**inputs, name: moved})
        return all(_is_stepped(outputs[n], wanted[n]) for n in wanted)

    # Either half alone: the largest of all is in one of them, and moves with that one.
    return tuple(
        axis
        for axis, size in enumerate(inputs[name].shape)
        if size > 1
        and is_stepped(axis, slice(size // 2))
        and is_stepped(axis, slice(size // 2, None))
    )


def draw_sides(
    shape: tuple[int, ...], axes: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Which places along the free axes are below zero: half of them, or the only one."""
    grid = tuple(size if axis in axes else 1 for axis, size in enumerate(shape))
    count = int(np.prod(grid))
    below = np.arange(count) < (count + 1) // 2
    return rng.permutation(below).reshape(grid)


def _is_near(left: Array, right: Array) -> bool:
    wanted = right.astype(np.float64, copy=False)
    error = float(np.linalg.norm(left.astype(np.float64, copy=False) - wanted))
    return error <= _SAME * float(np.linalg.norm(wanted))


def _is_stepped(left: Array, right: Array) -> bool:
    """Whether each element is as it was, or is shifted."""
    wanted = right.astype(np.float64, copy=False)
    change = left.astype(np.float64, copy=False) - wanted
    room = _SAME * (SHIFT + np.abs(wanted))
    return bool(np.all((np.abs(change) <= room) | (np.abs(change - SHIFT) <= room)))
