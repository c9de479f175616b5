"""Where an output is wrong: the part of it, and the tile that a kernel has an element in.

Tiles are those of the output as [rows, last axis]: a tile's rows are the partitions, its columns
the free size of a matmul's result.
"""

from __future__ import annotations

import math

import numpy as np

from nki_agent.chip.spec import DEFAULT_TARGET, load_chip
from nki_agent.task.cause import Mask

# Shares of the region that must be wrong for "this part is wrong" to be worth saying.
_DENSE = 0.4
_MOST = 0.6
_WHOLE = 0.98
_SPREAD = 0.7
_MATRIX_RANK = 2


def tile_sizes() -> tuple[int, int]:
    """Partitions of a tile, and the free size of a matmul's result; alike in all generations."""
    chip = load_chip(DEFAULT_TARGET)
    return chip.partitions, chip.matmul_moving_free_max


def name_tile(index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """The row and tile of an element: `row 300, tile 2 x 0 of 3 x 1`."""
    if not index:
        return ""
    partitions, free = tile_sizes()
    rows = math.prod(shape[:-1])
    tiles = f"{index[-1] // free} of {-(-shape[-1] // free)}"
    if len(shape) < _MATRIX_RANK:
        return f"free tile {tiles}"
    row = int(np.ravel_multi_index(index[:-1], shape[:-1]))
    return (
        f"row {row}, partition tile {row // partitions} of {-(-rows // partitions)}, free {tiles}"
    )


def find_region(bad: Mask) -> tuple[tuple[slice, ...], str]:
    """The bounding box of the wrong elements, and words for it if it is a proper part."""
    box: list[slice] = []
    places: list[str] = []
    for axis, size in enumerate(bad.shape):
        others = tuple(i for i in range(bad.ndim) if i != axis)
        touched = np.flatnonzero(bad.any(axis=others))
        low, high = int(touched[0]), int(touched[-1])
        box.append(slice(low, high + 1))
        if high - low + 1 == touched.size and touched.size < size:
            places.append(_name_range(axis, low, high, size))
        elif touched.size < _DENSE * size and (step := _find_step(touched)):
            places.append(f"every {step}th index of axis {axis} from {low}")
            box[-1] = slice(low, high + 1, step)
    region = tuple(box)
    share = float(np.mean(bad[region]))
    if not places or share < _DENSE:
        return tuple(slice(None) for _ in bad.shape), ""
    amount = "all" if share > _WHOLE else "most" if share > _MOST else "much"
    return region, f"{amount} of {' and '.join(places)} is wrong, the rest is right"


def is_spread(bad: Mask) -> bool:
    """Whether wrong elements lie all over the output."""
    share = 1.0
    for axis, size in enumerate(bad.shape):
        touched = np.flatnonzero(bad.any(axis=tuple(i for i in range(bad.ndim) if i != axis)))
        share *= (touched[-1] - touched[0] + 1) / size
    return share > _SPREAD


def is_tail(box: tuple[slice, ...], shape: tuple[int, ...]) -> bool:
    """Whether the box reaches the end of every axis that it does not span, from inside."""
    parts = [(b, n) for b, n in zip(box, shape, strict=True) if b.start or (b.stop or n) < n]
    return bool(parts) and all(b.start and b.stop == n and not b.step for b, n in parts)


def _name_range(axis: int, low: int, high: int, size: int) -> str:
    span = f"index {low}" if low == high else f"{low}..{high}"
    tail = " (the tail, up to the end)" if high == size - 1 and low > 0 else ""
    return f"axis {axis} {span} of {size}{tail}"


def _find_step(touched: np.typing.NDArray[np.intp]) -> int | None:
    steps = np.diff(touched)
    return int(steps[0]) if steps.size > 1 and (steps == steps[0]).all() else None
