"""Guesses why an output is wrong from the pattern of its errors.

The guess is one short sentence for a person or a model: which part is wrong, and what the values in
that part look like. It is never part of the verdict. Causes that need the inputs to be seen (a
reduction over the wrong axis, a wrong constant inside) are not guessed.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

ELEMS_MAX = 1 << 20
"""Elements looked at; the leading part of larger outputs says enough."""
SAME = 1e-2
"""Relative L2 difference under which two patterns count as the same."""
SAMPLE_ROWS = 32
"""Rows compared for each candidate shift."""
SHIFTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
TILES = (128, 512)
"""Partitions of a tile, and the free size of a PSUM bank in float32."""
NUM_TILES_MAX = 16
RANK_MAX = 5
# Shares of the region that must be wrong for "this part is wrong" to be worth saying.
_DENSE = 0.5
_WHOLE = 0.98
# Relative L2 error that is left when each value is rounded to a format on the way.
_PRECISIONS = (
    (1e-5, 8e-5, "rounding, or an approximate function"),
    (8e-5, 6e-4, "float16 or tfloat32 precision on the way"),
    (6e-4, 6e-3, "bfloat16 precision on the way"),
    (6e-3, 8e-2, "8-bit float precision on the way"),
)
# Relative error of a float32 that was rounded a few times.
_EXACT = 1e-6


def guess_pattern(expected: Reals, actual: Reals, bad: NDArray[np.bool_]) -> str:
    """Say which part is wrong and what it looks like; empty where nothing fits."""
    if not bad.any():
        return ""
    box, place = _find_region(bad)
    with np.errstate(invalid="ignore", over="ignore"):
        # A tile's values may come from outside the wrong part.
        nature = _find_swapped_tiles(_shorten(expected), _shorten(actual)) if place else ""
        nature = nature or _guess_nature(_shorten(expected[box]), _shorten(actual[box]))
    return ": ".join(text for text in (place, nature) if text)


def _find_region(bad: NDArray[np.bool_]) -> tuple[tuple[slice, ...], str]:
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
    amount = "all" if share > _WHOLE else "most"
    return region, f"{amount} of {' and '.join(places)} is wrong, the rest is right"


def _name_range(axis: int, low: int, high: int, size: int) -> str:
    span = f"index {low}" if low == high else f"{low}..{high}"
    tail = " (the tail, up to the end)" if high == size - 1 and low > 0 else ""
    return f"axis {axis} {span} of {size}{tail}"


def _find_step(touched: NDArray[np.intp]) -> int | None:
    steps = np.diff(touched)
    return int(steps[0]) if steps.size > 1 and (steps == steps[0]).all() else None


def _shorten(values: Reals) -> Reals:
    """At most `ELEMS_MAX` elements: the first of the leading axis."""
    row = max(1, values[:1].size)
    return values[: max(1, ELEMS_MAX // row)]


def _guess_nature(expected: Reals, actual: Reals) -> str:
    finite = np.isfinite(actual)
    if not finite.any():
        return "never written, or not finite" if np.isnan(actual).all() else "not finite"
    if not (finite.all() and np.isfinite(expected).all()):
        return f"{np.count_nonzero(~finite)} values are not finite (unwritten, or an overflow)"
    if actual.size > 1 and (actual == actual.flat[0]).all():
        what = "zeros" if actual.flat[0] == 0 else f"the constant {actual.flat[0]:g}"
        return f"the output is {what} there"
    return (
        _find_scale(expected, actual)
        or _find_transpose(expected, actual)
        or _find_shift(expected, actual)
        or _find_swapped_tiles(expected, actual)
        or _find_precision(expected, actual)
        or _find_missing_terms(expected, actual)
    )


def _norm(values: Reals) -> float:
    return float(np.linalg.norm(values.ravel()))


def _is_same(left: Reals, right: Reals) -> bool:
    """Whether two patterns agree, and vary enough for that to mean something."""
    spread = _norm(left - left.mean())
    return spread > 0 and _norm(left - right) < SAME * spread


def _find_scale(expected: Reals, actual: Reals) -> str:
    square = float(np.vdot(expected, expected))
    if square == 0 or expected.size == 1:
        return ""
    factor = float(np.vdot(expected, actual)) / square
    # A factor near 1 is lost precision, not a missing scale.
    if abs(factor - 1) > SAME and _is_same(expected * factor, actual):
        return f"the values are {factor:.4g} times the expected ones (a missing scale or pass?)"
    offset = float(np.mean(actual - expected))
    if abs(offset) > SAME * _norm(expected) / np.sqrt(expected.size) and _is_same(
        expected + offset, actual
    ):
        return f"the values are the expected ones plus {offset:.4g}"
    return ""


def _find_transpose(expected: Reals, actual: Reals) -> str:
    """The right values in the memory order of permuted axes."""
    if not 1 < expected.ndim <= RANK_MAX:
        return ""
    for axes in itertools.permutations(range(expected.ndim)):
        permuted = expected.transpose(axes)
        order = [axis for axis in axes if expected.shape[axis] > 1]
        if order == sorted(order):
            continue
        if _is_same(permuted.ravel(), actual.ravel()):
            return f"the axes are permuted: the values lie in the order {list(axes)}"
    return ""


def _rows(values: Reals, axis: int) -> Reals:
    """A few rows along `axis`, which becomes the last one."""
    return np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])[:SAMPLE_ROWS]


def _find_shift(expected: Reals, actual: Reals) -> str:
    for axis in range(expected.ndim):
        wanted, got = _rows(expected, axis), _rows(actual, axis)
        for shift in SHIFTS:
            if shift * 2 > wanted.shape[1]:
                break
            if _is_same(wanted[:, :-shift], got[:, shift:]):
                return f"the values are shifted by {shift} along axis {axis}"
            if _is_same(wanted[:, shift:], got[:, :-shift]):
                return f"the values are shifted by -{shift} along axis {axis}"
    return ""


def _find_swapped_tiles(expected: Reals, actual: Reals) -> str:
    """Whole tiles that hold another tile's values."""
    for axis, tile in itertools.product(range(expected.ndim), TILES):
        count = expected.shape[axis] // tile
        if not 1 < count <= NUM_TILES_MAX:
            continue
        wanted = [_rows(expected, axis)[:, i * tile : (i + 1) * tile] for i in range(count)]
        got = [_rows(actual, axis)[:, i * tile : (i + 1) * tile] for i in range(count)]
        swapped = [
            (i, j)
            for i, j in itertools.permutations(range(count), 2)
            if _is_same(wanted[j], got[i])
        ]
        if swapped:
            i, j = swapped[0]
            return f"tile {i} of {tile} along axis {axis} holds the values of tile {j}"
    return ""


def _find_precision(expected: Reals, actual: Reals) -> str:
    difference = actual - expected
    if np.count_nonzero(np.abs(difference) > _EXACT * np.abs(expected)) < _DENSE * expected.size:
        return ""  # few are off, but by much: as where a clamp is missing
    norm = _norm(expected)
    relative = _norm(difference) / norm if norm else 0.0
    for low, high, name in _PRECISIONS:
        if low <= relative < high:
            return f"small errors everywhere, as from {name}"
    return ""


def _find_missing_terms(expected: Reals, actual: Reals) -> str:
    """Read sums from two correlations: a part of a sum is orthogonal to what is missing."""
    wanted: Any = expected - expected.mean()
    got: Any = actual - actual.mean()
    square = float(np.vdot(wanted, wanted))
    if square == 0:
        return ""
    overlap = float(np.vdot(wanted, got)) / square
    size = float(np.vdot(got, got)) / square
    close = 0.1
    if close / 2 < overlap < 1 - close / 2 and abs(size - overlap) < close * overlap:
        return f"like a sum with about {overlap:.0%} of its terms (a missing accumulation?)"
    if abs(overlap - 1) < close and size > 1 + close:
        return "the expected values plus something else (a stale accumulator?)"
    if abs(overlap) < close / 2:
        return "the values have nothing to do with the expected ones"
    return ""
