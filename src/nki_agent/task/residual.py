"""What small or scattered errors look like: clamps, rounding, another function, missing terms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nki_agent.isa.dtype import DType
from nki_agent.task.cause import SAMPLE_MAX, Case, Cause, Guess, Reals, eps_of, norm
from nki_agent.task.region import is_spread

_TERM = "a term that is a little wrong: a bound, a scale, one element more or less"
# Relative L2 error that is left when each value is rounded to a format on the way.
_PRECISIONS = (
    (1e-6, 8e-5, "rounding, or an approximate function"),
    (8e-5, 6e-4, "float16 or tfloat32 precision on the way"),
    (6e-4, 6e-3, f"bfloat16 precision on the way, or {_TERM}"),
    (6e-3, 8e-2, f"8-bit float precision on the way, or {_TERM}"),
)
_GRIDS = (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT8_E4M3, DType.FLOAT8_E5M2)
_MOST, _ALL = 0.95, 0.999
_DENSE = 0.5
_ONE_SIDED = 0.98
_BIAS = 0.1
# Relative error of a float32 that was rounded a few times.
_EXACT = 1e-6
_BINS = 32
_BIN_SIZE_MIN = 16
_SMOOTH = 0.9
_CLOSE = 0.05
_ELEMS_MIN = 64


def find_clamp(case: Case) -> Guess | None:
    """Wrong only where the reference, or the kernel, holds values at a bound."""
    wanted, got = case.expected[case.bad], case.actual[case.bad]
    if case.bad.all() or wanted.size < 2 or not is_spread(case.bad):  # noqa: PLR2004 - one element shows no bound
        return None
    for values, others, text in (
        (wanted, got, "only values that should stay at {:.4g} are wrong: a clamp is missing"),
        (got, wanted, "the wrong values are all {:.4g}: a clamp too much, or a wrong bound"),
    ):
        bound = float(values[0])
        is_flat = bool((values == bound).all())
        if is_flat and ((others > bound).all() or (others < bound).all()):
            return Guess(cause=Cause.CLAMP, text=text.format(bound))
    return None


def find_rounding(case: Case) -> Guess | None:
    """Values on a coarser grid than the output's, or errors of one step to one side."""
    if case.dtype is None:
        return None
    if case.dtype.is_integer:
        return _find_steps(case)
    return _find_grid(case.sample())


def _find_steps(case: Case) -> Guess | None:
    steps = (case.actual - case.expected)[case.bad]
    if np.abs(steps).max() > 1 or case.bad.size < _ELEMS_MIN:
        return None
    inward = np.mean(steps * np.sign(case.expected[case.bad]) < 0)
    for share, how in (
        (float(inward), "toward zero"),
        (float(np.mean(steps < 0)), "down"),
        (float(np.mean(steps > 0)), "up"),
    ):
        if share > _ONE_SIDED:
            text = f"wrong values are one step {how}: rounded {how} instead of to the nearest?"
            return Guess(cause=Cause.ROUNDING, text=text)
    return None


def _find_grid(case: Case) -> Guess | None:
    assert case.dtype is not None
    is_nonzero = case.expected != 0
    expected, actual = case.expected[is_nonzero], case.actual[is_nonzero]
    if expected.size < _ELEMS_MIN:
        return None
    stored = _round(expected, case.dtype)
    for grid in _GRIDS:
        if grid.itemsize > case.dtype.itemsize or grid is case.dtype:
            continue
        rounded = _round(actual, grid)
        if np.mean(rounded == actual) < _ALL or np.mean(_round(stored, grid) == stored) > _DENSE:
            continue
        nearest = _round(stored, grid)
        step = np.abs(nearest) * eps_of(grid)
        if np.mean(np.abs(nearest - actual) <= 2 * step + _EXACT * np.abs(expected)) < _MOST:
            return None
        sides = np.abs(actual) <= np.abs(expected) * (1 + _EXACT)
        if np.mean(sides) > _ONE_SIDED:
            text = f"every value is cut to a {grid.value} number: truncated instead of rounded"
            return Guess(cause=Cause.ROUNDING, text=text)
        text = (
            f"every value is a {grid.value} number: rounded to {grid.value} before the store;"
            f" keep every tile in between in {DType.FLOAT32.value}"
        )
        return Guess(cause=Cause.LOST_PRECISION, text=text)
    return None


def _round(values: Reals, dtype: DType) -> Reals:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype.numpy_dtype).astype(np.float64)


def find_function(case: Case) -> Guess | None:
    """Errors that are a smooth function of one value: another function, or a poor one.

    The value is the expected one, or that of an input of the same size.
    """
    size = case.expected.size
    step = -(-size // SAMPLE_MAX)
    error = (case.actual - case.expected).ravel()[::step]
    if error.size < _BINS * _BIN_SIZE_MIN:
        return None
    keys = [("expected value", case.expected)]
    keys += [(f"value of `{n}`", a) for n, a in case.context.inputs.items() if a.size == size]
    for name, key in keys:
        if _is_smooth(error[np.argsort(key.ravel()[::step], kind="stable")]):
            text = (
                f"the error is a smooth function of the {name}: an approximate or other function?"
            )
            return Guess(cause=Cause.WRONG_FUNCTION, text=text)
    return None


def _is_smooth(error: Reals) -> bool:
    bins = error[: error.size // _BINS * _BINS].reshape(_BINS, -1)
    total = float(np.square(bins).sum())
    within = float(np.square(bins - _detrend(bins)).sum())
    return total > 0 and within < (1 - _SMOOTH) * total


def _detrend(error: Reals) -> Reals:
    """Each bin's straight line."""
    place = np.linspace(-1, 1, error.shape[1])
    slope = (error * place).sum(axis=1, keepdims=True) / float(np.square(place).sum())
    line: Reals = error.mean(axis=1, keepdims=True) + slope * place
    return line


def find_precision(case: Case) -> Guess | None:
    """Small relative errors of both signs everywhere; whole numbers have no digits to lose."""
    if case.dtype is not None and case.dtype.is_integer:
        return None
    case = case.sample()
    expected, difference = case.expected, case.actual - case.expected
    off: NDArray[np.bool_] = np.abs(difference) > _EXACT * np.abs(expected)
    if np.count_nonzero(off) < _DENSE * np.count_nonzero(expected):
        return None  # few are off, but by much: as where a clamp is missing
    size = norm(expected)
    relative = norm(difference) / size if size else 0.0
    for low, high, name in _PRECISIONS:
        if low <= relative < high:
            text = f"small errors everywhere, as from {name}"
            return Guess(cause=Cause.LOST_PRECISION, text=text)
    return None


def find_running(case: Case) -> Guess | None:
    """The second part along an axis holds itself plus the first: an accumulator not cleared."""
    for axis in range(case.expected.ndim):
        others = tuple(i for i in range(case.expected.ndim) if i != axis)
        touched = np.flatnonzero(case.bad.any(axis=others))
        start, size = int(touched[0]), case.expected.shape[axis]
        count = min(start, size - start)
        if start == 0 or count == 0:
            continue
        wanted = np.moveaxis(case.expected, axis, 0)
        got = np.moveaxis(case.actual, axis, 0)[start : start + count]
        if case.is_same(wanted[start : start + count] + wanted[:count], got):
            text = (
                f"from index {start} of axis {axis} on, earlier results are added to the right ones"
            )
            return Guess(cause=Cause.STALE, text=f"{text}: an accumulator is not cleared")
    return None


def find_missing_terms(case: Case) -> Guess | None:
    """Read sums from two correlations: a part of a sum is orthogonal to what is missing."""
    case = case.sample()
    wanted = case.expected - case.expected.mean()
    got = case.actual - case.actual.mean()
    square = float(np.vdot(wanted, wanted))
    if square == 0 or wanted.size < _ELEMS_MIN or np.mean(case.bad) < _DENSE:
        return None
    overlap = float(np.vdot(wanted, got)) / square
    size = float(np.vdot(got, got)) / square
    if _CLOSE < overlap < 1 - _CLOSE and abs(size - overlap) < 2 * _CLOSE * overlap:
        text = f"like a sum with about {overlap:.0%} of its terms (a missing accumulation?)"
        return Guess(cause=Cause.MISSING_ACCUMULATION, text=text)
    if abs(overlap - 1) < 2 * _CLOSE and size > 1 + 2 * _CLOSE:
        text = "the expected values plus something else (a stale accumulator?)"
        return Guess(cause=Cause.STALE, text=text)
    if abs(overlap) < _CLOSE:
        return Guess(cause=None, text="the values have nothing to do with the expected ones")
    return None
