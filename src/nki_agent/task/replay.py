"""Guesses that need the inputs: what the output would be over another axis, or without some terms.

Nothing here knows the task's operation. A few reductions, running sums and products are tried on
the inputs; a guess is made only where one of them gives the expected output as it should be, and
gives the actual one over another axis, with an operand transposed, or over a part of the terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.task.cause import Case, Cause, Guess, Reals, norm
from nki_agent.task.region import tile_sizes

Array = NDArray[Any]

ELEMS_MAX = 1 << 19
"""Larger inputs are not tried."""
ROWS_MAX = 16
"""Rows of a product that are tried."""
SIZE_MIN = 8
_FIT = 1e-2
_MATRIX_RANK = 2
_SAMPLED_LINES = 24
_HEAD = 256


def _log_sum_exp(values: Reals, axis: int) -> Reals:
    top = values.max(axis=axis, keepdims=True)
    total = np.log(np.exp(values - top).sum(axis=axis)) + np.squeeze(top, axis)
    return np.asarray(total)


# Up to a factor and an offset: a mean is a sum.
REDUCTIONS: dict[str, Callable[[Reals, int], Reals]] = {
    "sum": lambda x, axis: x.sum(axis=axis),
    "largest": lambda x, axis: x.max(axis=axis),
    "smallest": lambda x, axis: x.min(axis=axis),
    "sum of squares": lambda x, axis: np.square(x).sum(axis=axis),
    "norm": lambda x, axis: np.sqrt(np.square(x).sum(axis=axis)),
    "variance": lambda x, axis: x.var(axis=axis),
    "standard deviation": lambda x, axis: x.std(axis=axis),
    "sum of magnitudes": lambda x, axis: np.abs(x).sum(axis=axis),
    "log-sum-exp": _log_sum_exp,
    "place of the largest": lambda x, axis: x.argmax(axis=axis).astype(np.float64),
    "place of the smallest": lambda x, axis: x.argmin(axis=axis).astype(np.float64),
}
SCANS: dict[str, Callable[[Reals, int], Reals]] = {
    "running sum": lambda x, axis: x.cumsum(axis=axis),
    "running largest": lambda x, axis: np.maximum.accumulate(x, axis=axis),
}


def find_copy(case: Case) -> Guess | None:
    """An input in the place of the output."""
    for name, array in _reals(case):
        actual = case.actual.ravel()
        if array.size != actual.size or not _is_equal(array.flat[:_HEAD], actual[:_HEAD]):
            continue
        if _is_equal(array.ravel(), actual):
            return Guess(cause=Cause.COPY, text=f"the output is the input `{name}`, unchanged")
    return None


def find_replay(case: Case) -> Guess | None:
    """A reduction, scan, product or normalisation with its axis or its terms wrong."""
    for name, array in _reals(case):
        if array.ndim >= _MATRIX_RANK or array.size > case.expected.size:
            found = _try_reductions(case, name, array) or _try_scans(case, name, array)
            found = found or _try_affine(case, name, array)
            if found is not None:
                return found
    return _try_products(case)


def _reals(case: Case) -> Iterator[tuple[str, Reals]]:
    for name, array in case.context.inputs.items():
        if array.dtype != np.bool_ and array.size <= ELEMS_MAX:
            yield name, array.astype(np.float64)


def _is_equal(left: Reals, right: Reals) -> bool:
    return norm(left - right) <= 1e-6 * norm(left) and norm(left) > 0


def _fits(model: Reals, values: Reals) -> bool:
    """Whether the values are the model's, but for one factor and one offset."""
    if model.size != values.size or model.size < SIZE_MIN:
        return False
    left, right = model.ravel() - model.mean(), values.ravel() - values.mean()
    size = float(np.vdot(left, left))
    if size == 0 or not np.isfinite(right).all():
        return False
    factor = float(np.vdot(left, right)) / size
    return factor != 0 and norm(factor * left - right) < _FIT * norm(right)


def _try_reductions(case: Case, name: str, array: Reals) -> Guess | None:
    # A reduction is of the size of the array without an axis.
    axes = [a for a in range(array.ndim) if array.size // array.shape[a] == case.expected.size]
    for what, reduce in REDUCTIONS.items():
        for axis in axes:
            if not _fits(reduce(array, axis), case.expected):
                continue
            for other in axes:
                if other != axis and _fits(reduce(array, other), case.actual):
                    text = f"the {what} of `{name}` over axis {other} instead of axis {axis}"
                    return Guess(cause=Cause.WRONG_AXIS, text=text)
            terms = _find_terms(
                partial(_reduce_part, array, axis, reduce), case.actual, count=array.shape[axis]
            )
            if terms:
                text = f"the {what} of `{name}` over axis {axis} has only the terms {terms}"
                return Guess(cause=Cause.MISSING_ACCUMULATION, text=text)
    return None


def _reduce_part(
    array: Reals, axis: int, reduce: Callable[[Reals, int], Reals], start: int, end: int
) -> Reals:
    return reduce(np.take(array, range(start, end), axis=axis), axis)


def _multiply_part(left: Reals, right: Reals, start: int, end: int) -> Reals:
    product: Reals = left[:, start:end] @ right[start:end]
    return product


def _list_parts(count: int) -> Iterator[tuple[int, int]]:
    """First and last parts of `count` terms that a kernel's tiles would leave."""
    for tile in tile_sizes():
        for edge in range(tile, count, tile):
            yield 0, edge
            yield edge, count
        for start in range(tile, count - tile, tile):
            yield start, start + tile
    yield 0, count // 2
    yield count // 2, count
    yield 0, count - 1
    yield 1, count


def _find_terms(model: Callable[[int, int], Reals], actual: Reals, *, count: int) -> str:
    for start, end in dict.fromkeys(_list_parts(count)):
        if start < end and _fits(model(start, end), actual):
            return f"{start}..{end - 1} of {count}"
    return ""


def _try_scans(case: Case, name: str, array: Reals) -> Guess | None:
    if array.shape != case.expected.shape:
        return None
    axes = [axis for axis, size in enumerate(array.shape) if size > 1]
    for what, scan in SCANS.items():
        for axis in axes:
            if not _is_scan(case, scan(_pick_lines(array, axis), 1), case.expected, axis):
                continue
            for other in axes:
                lines = scan(_pick_lines(array, other), 1)
                if other != axis and _is_scan(case, lines, case.actual, other):
                    text = f"the {what} of `{name}` along axis {other} instead of axis {axis}"
                    return Guess(cause=Cause.WRONG_AXIS, text=text)
    return None


def _is_scan(case: Case, lines: Reals, values: Reals, axis: int) -> bool:
    return case.is_same(lines, _pick_lines(values, axis))


def _try_affine(case: Case, name: str, array: Reals) -> Guess | None:
    """A line of the output is the input's line times a factor plus an offset: a layer norm's.

    Over the wrong axis that holds for lines of another axis than in the reference.
    """
    if array.shape != case.expected.shape or array.ndim < _MATRIX_RANK:
        return None
    axes = [axis for axis, size in enumerate(array.shape) if size >= SIZE_MIN]
    for axis in axes:
        lines = _pick_lines(array, axis)
        fit = _FIT + case.noise
        slopes = _slopes(lines, _pick_lines(case.actual, axis), fit=fit)
        if slopes is None or _slopes(lines, _pick_lines(case.expected, axis), fit=fit) is not None:
            continue
        if _is_normalised(case, lines, slopes):
            text = f"the mean and deviation of `{name}` are those of axis {axis}, the wrong one"
            return Guess(cause=Cause.WRONG_AXIS, text=text)
    return None


def _pick_lines(array: Reals, axis: int) -> Reals:
    return np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])[:_SAMPLED_LINES]


def _slopes(left: Reals, right: Reals, *, fit: float) -> Reals | None:
    """The factor of each line; None where a line is no affine image of the other."""
    x = left - left.mean(axis=1, keepdims=True)
    y = right - right.mean(axis=1, keepdims=True)
    square = np.vecdot(x, x)
    if (square == 0).any():
        return None
    slopes = np.vecdot(x, y) / square
    rest = np.linalg.norm(y - slopes[:, None] * x, axis=1)
    fits: bool = bool((rest <= fit * np.linalg.norm(y, axis=1)).all())
    return np.asarray(slopes) if fits else None


def _is_normalised(case: Case, lines: Reals, slopes: Reals) -> bool:
    """Whether the slopes are one over the lines' deviation, times a gain that an input may be."""
    scaled = slopes * lines.std(axis=1)
    gains = [np.ones(slopes.size)]
    gains += [
        array.ravel()[: slopes.size].astype(np.float64)
        for array in case.context.inputs.values()
        if array.ndim == 1 and array.size >= slopes.size
    ]
    with np.errstate(all="ignore"):
        return any(_spread(scaled / g) < 0.2 * _spread(slopes / g) for g in gains)


def _spread(values: Reals) -> float:
    return float(np.std(values) / max(abs(float(np.mean(values))), 1e-300))


def _try_products(case: Case) -> Guess | None:
    """A matmul of two inputs with an operand transposed, or over a part of its terms."""
    if case.expected.ndim != _MATRIX_RANK:
        return None
    matrices = [(n, a) for n, a in _reals(case) if a.ndim == _MATRIX_RANK]
    wanted, got = case.expected[:ROWS_MAX], case.actual[:ROWS_MAX]
    for (name, left), (_, right) in itertools.permutations(matrices, 2):
        forms = [
            (x[: wanted.shape[0]], y)
            for x, y in itertools.product((left, left.T), (right, right.T))
            if x.shape[1] == y.shape[0] and (x.shape[0], y.shape[1]) == case.expected.shape
        ]
        for x, y in forms:
            if not _fits(x @ y, wanted):
                continue
            if any(_fits(v @ w, got) for v, w in forms if v is not x or w is not y):
                return Guess(
                    cause=Cause.PERMUTED,
                    text=f"an operand of the product with `{name}` is transposed",
                )
            terms = _find_terms(partial(_multiply_part, x, y), got, count=x.shape[1])
            if terms:
                text = f"the product with `{name}` has only the terms {terms}: accumulate all"
                return Guess(cause=Cause.MISSING_ACCUMULATION, text=text)
    return None
