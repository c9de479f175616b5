"""One factor or offset for all, for each line, or for two axes at once.

A value normalised over the wrong axis is the right one times a statistic of one axis over one of
another: the ratio of both outputs is then a product of two factors, each constant along an axis.
Softmax, RMS norm and means divide like that; log-softmax and centring do the same by differences.
Random quadruples of elements tell it, whatever the other axes do.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.seeds import rng_for
from nki_agent.task.cause import SAME, Case, Cause, Guess, Reals, norm
from nki_agent.task.family import Family

NUM_SAMPLES = 600
"""Quadruples looked at for one pair of axes."""
SIZE_MIN = 16
"""Elements under which factors are no evidence."""
PAIRS_MAX = 6
_FIT = 0.97
_VARIES = 0.4
_SMALL = 0.02
"""Elements under this share of the typical one are too inexact for a ratio."""
_TIGHT, _LOOSE = 1.0, 2.0


def find_scale(case: Case) -> Guess | None:
    """One factor, or one offset, for all elements."""
    expected, actual = case.expected, case.actual
    square = float(np.vdot(expected, expected))
    if square == 0 or expected.size == 1:
        return None
    factor = float(np.vdot(expected, actual)) / square
    offset = float(np.mean(actual - expected))
    scaled, moved = norm(expected * factor - actual), norm(expected + offset - actual)
    # A factor near 1 is lost precision, not a missing scale.
    if scaled <= moved and abs(factor - 1) > SAME and case.is_same(expected * factor, actual):
        if case.context.family is Family.TINY:
            return _name_epsilon(f"the values are {factor:.4g} times the expected ones")
        text = f"the values are {factor:.4g} times the expected ones (a missing scale or pass?)"
        return Guess(cause=Cause.SCALED, text=text)
    is_large = abs(offset) > SAME * norm(expected) / np.sqrt(expected.size)
    if moved < scaled and is_large and case.is_same(expected + offset, actual):
        text = f"the values are the expected ones plus {offset:.4g}"
        return Guess(cause=Cause.OFFSET, text=text)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plane:
    """How a quantity behaves in the plane of two axes."""

    is_separable: bool
    varies: tuple[bool, bool]
    """Whether it changes along the first axis, and along the second."""
    is_constant: tuple[bool, bool]
    """Whether it surely does not: between both, nothing is said."""


def find_line_factors(case: Case) -> Guess | None:
    """A factor or offset for each line, or of two axes at once (a statistic of the wrong axis)."""
    shape = case.expected.shape
    long = [axis for axis, size in enumerate(shape) if size > 1]
    if case.expected.size < SIZE_MIN or not long:
        return None
    pairs = list(itertools.combinations(reversed(long), 2))[:PAIRS_MAX]
    for is_ratio in (True, False):
        varying: set[int] = set()
        constant: set[int] = set()
        for pair in pairs:
            plane = _look(case, pair, is_ratio=is_ratio)
            if plane is None or not plane.is_separable:
                continue
            if all(plane.varies):
                return _name_axes(pair, is_ratio=is_ratio)
            varying |= {axis for axis, varies in zip(pair, plane.varies, strict=True) if varies}
            constant |= {axis for axis, stays in zip(pair, plane.is_constant, strict=True) if stays}
        if varying and constant and varying | constant == set(long) and not varying & constant:
            return _name_lines(case, sorted(varying), is_ratio=is_ratio)
    return None


def _look(case: Case, pair: tuple[int, int], *, is_ratio: bool) -> _Plane | None:
    """Sample quadruples (i,j), (i,l), (k,j), (k,l) in the plane of two axes."""
    corners = _draw_corners(case.expected.shape, pair)
    expected = np.stack([case.expected[c] for c in corners])
    actual = np.stack([case.actual[c] for c in corners])
    level = float(np.median(np.abs(case.sample().expected)))
    noise = 2 * case.noise
    values, tolerance, usable = (
        _ratios(expected, actual, level=level, noise=noise)
        if is_ratio
        else _differences(expected, actual, noise=noise)
    )
    if np.count_nonzero(usable) < NUM_SAMPLES // 4:
        return None
    values, tolerance = values[:, usable], tolerance[usable]
    mixed = np.abs(values[0] - values[1] - values[2] + values[3])
    first = np.maximum(np.abs(values[0] - values[2]), np.abs(values[1] - values[3]))
    second = np.maximum(np.abs(values[0] - values[1]), np.abs(values[2] - values[3]))
    return _Plane(
        is_separable=bool(np.mean(mixed < _TIGHT * tolerance) > _FIT),
        varies=(
            bool(np.mean(first > _LOOSE * tolerance) > _VARIES),
            bool(np.mean(second > _LOOSE * tolerance) > _VARIES),
        ),
        is_constant=(
            bool(np.mean(first < _TIGHT * tolerance) > _FIT),
            bool(np.mean(second < _TIGHT * tolerance) > _FIT),
        ),
    )


def _draw_corners(
    shape: tuple[int, ...], pair: tuple[int, int]
) -> list[tuple[NDArray[np.intp], ...]]:
    rng = rng_for(0, "corners", *pair)
    base = [rng.integers(0, size, NUM_SAMPLES) for size in shape]
    moved = {a: (base[a] + rng.integers(1, shape[a], NUM_SAMPLES)) % shape[a] for a in pair}
    first, second = pair
    chosen: tuple[dict[int, NDArray[np.intp]], ...] = (
        {},
        {second: moved[second]},
        {first: moved[first]},
        moved,
    )
    return [tuple(c.get(a, base[a]) for a in range(len(shape))) for c in chosen]


def _ratios(
    expected: Reals, actual: Reals, *, level: float, noise: float
) -> tuple[Reals, Reals, NDArray[np.bool_]]:
    with np.errstate(all="ignore"):
        quotient = actual / expected
        values = np.log(np.abs(quotient))
    usable = (np.abs(expected) > _SMALL * level).all(axis=0) & np.isfinite(values).all(axis=0)
    usable &= np.abs(np.sign(quotient).sum(axis=0)) == quotient.shape[0]
    return values, np.full(expected.shape[1], 2 * noise), np.asarray(usable)


def _differences(
    expected: Reals, actual: Reals, *, noise: float
) -> tuple[Reals, Reals, NDArray[np.bool_]]:
    values = actual - expected
    size = np.maximum(np.abs(expected), np.abs(actual)).max(axis=0)
    return values, noise * np.maximum(size, np.finfo(np.float64).tiny), np.isfinite(size)


def _name_axes(pair: tuple[int, int], *, is_ratio: bool) -> Guess:
    how = "times a factor" if is_ratio else "plus an offset"
    low, high = sorted(pair)
    text = (
        f"the expected values {how} of axis {low} and one of axis {high}: as if reduced or "
        f"normalised over the wrong one of these axes"
    )
    return Guess(cause=Cause.WRONG_AXIS, text=text)


def _name_lines(case: Case, axes: list[int], *, is_ratio: bool) -> Guess:
    where = " and ".join(f"axis {axis}" for axis in axes)
    if is_ratio and case.context.family is Family.TINY:
        return _name_epsilon(f"each index of {where} has its own factor")
    if is_ratio:
        text = f"each index of {where} has its own factor (a scale, gain or norm of it is missing?)"
        return Guess(cause=Cause.SCALED, text=text)
    text = f"each index of {where} has its own offset (a bias or mean of it is missing?)"
    return Guess(cause=Cause.OFFSET, text=text)


def _name_epsilon(what: str) -> Guess:
    text = f"{what}, on tiny inputs only: a missing or wrong epsilon?"
    return Guess(cause=Cause.MISSING_EPSILON, text=text)
