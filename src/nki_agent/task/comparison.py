"""Says whether an output is right, and if not, where and how it is wrong.

Law: a right answer costs a few passes in float32; everything doubtful is measured again in float64,
and only a wrong answer pays for the details. The reference comes in float64 and is not rounded
first, except where the limits leave no room for the rounding: exact outputs and 8-bit floats. A
value that overflows the output's dtype is expected as infinity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nki_agent.isa.dtype import DType
from nki_agent.task.cause import Case, Context
from nki_agent.task.halves import BFLOAT16, to_single
from nki_agent.task.pattern import Pattern, guess_pattern
from nki_agent.task.picture import draw_tile
from nki_agent.task.region import name_tile
from nki_agent.task.tolerance import (
    CHAIN_ROW_FLOOR,
    CODE_STEPS,
    POINT_FACTOR,
    ROW_FACTOR,
    ROW_FLOOR,
    Gate,
    Tolerance,
)

Array = NDArray[Any]
Reals = NDArray[np.float64]

TINY = float(np.finfo(np.float32).tiny)
"""Nothing is divided by less: an all-zero reference has errors measured against this."""
HUGE = float(np.finfo(np.float64).max)
"""The ratio of an answer that no tolerance could accept."""
# Squares that float32 holds without overflow or loss; outside, float64 decides.
_QUICK_LOW, _QUICK_HIGH = 1e-20, 1e30
# Over this share of the limits float64 decides: the quick sums are good to four digits, and count
# an element's own rounding as error.
_QUICK_RATIO = 0.5
_CLEARLY = 2.0
"""What fails by this much more than is asked fails in float64 too."""
_MATRIX_RANK = 2
_ONE_BYTE = 1
AVERAGE_SHARE = 0.3
"""Part of the average row's norm that the typical row's is at least taken to be."""
VANISHED = 1e-9
"""A row that is so small beside the typical one has cancelled, or holds nothing."""
OWN_FLOOR = 0.1
"""Part of the root mean square that an element's own size is at least taken to be."""


class Element(msgspec.Struct, frozen=True, kw_only=True):
    """One element: values are numbers, or "nan", "inf", "-inf", which JSON has no number for."""

    index: tuple[int, ...]
    got: float | str
    expected: float | str
    tile: str
    """Its row and tile in the output as [rows, last axis]."""

    def __str__(self) -> str:
        """`[896, 0] is 0 instead of 0.0012 (row 896, partition tile 7 of 8, free tile 0 of 1)`."""
        index = ", ".join(map(str, self.index))
        return f"[{index}] is {_show(self.got)} instead of {_show(self.expected)} ({self.tile})"


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """Where an output is wrong."""

    first: Element
    worst: Element
    num_bad: int
    num_elems: int
    worst_row: tuple[int, ...] | None
    pattern: Pattern = Pattern()
    picture: str = ""
    """The tile around the worst element, in lines."""

    def __str__(self) -> str:
        """How many are wrong, and where the first and the worst one are."""
        text = f"{self.num_bad} of {self.num_elems} elements are wrong; first {self.first}"
        return text if self.worst == self.first else f"{text}; worst {self.worst}"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The error of one output.

    `ratio` is the largest error as a share of what is allowed: at most 1 is right. `rel_l2`,
    `max_abs` and `worst_row_rel` are over the elements that are finite on both sides; None where
    shape or dtype already differ.
    """

    right: bool
    ratio: float
    rel_l2: float | None = None
    max_abs: float | None = None
    rms: float | None = None
    worst_row_rel: float | None = None
    num_not_finite: int = 0
    reason: str = ""
    mismatch: Mismatch | None = None

    def __str__(self) -> str:
        """Short enough for a model's context: the error, the places, the likely cause."""
        if self.mismatch is None:
            return self.reason or self.detail
        lines = (self.reason, str(self.mismatch), str(self.mismatch.pattern))
        return "\n".join(line for line in lines if line)

    @property
    def detail(self) -> str:
        """The figures behind the verdict that `reason` and `mismatch` leave out."""
        if self.rel_l2 is None or self.max_abs is None:
            return ""
        rest = "of the rest: " if self.num_not_finite else ""
        text = f"{rest}relative L2 error {self.rel_l2:.2e}, largest error {self.max_abs:.2e}"
        if self.rms is not None:
            text += f" where the root mean square is {self.rms:.2e}"
        row = None if self.mismatch is None else self.mismatch.worst_row
        if row is not None and self.worst_row_rel is not None:
            text += f"; worst row {list(row)} with {self.worst_row_rel:.2e}"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errors:
    """Errors in float64, with what is equal or not finite set apart."""

    expected: Reals
    actual: Reals
    difference: Reals
    not_finite: NDArray[np.bool_]
    rel_l2: float
    max_abs: float
    rms: float
    row_rel: Reals | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """What a comparison in float64 came to; `bad` are the wrong elements, None if it is right."""

    errors: _Errors
    ratio: float
    bad: NDArray[np.bool_] | None = None
    reason: str = ""

    def finish(self, *, dtype: DType, limit: float, context: Context | None) -> Comparison:
        """The public record, with the places and the pattern where a context is given."""
        errors = self.errors
        mismatch = None
        if context is not None and self.bad is not None:
            mismatch = _locate(errors, self.bad)
            off = (
                self.bad.reshape(errors.expected.shape)
                if limit == 0
                else _off(errors, self.bad, limit)
            )
            case = Case(
                expected=errors.expected,
                actual=errors.actual,
                bad=off,
                dtype=dtype,
                context=context,
            )
            mismatch = msgspec.structs.replace(
                mismatch,
                pattern=guess_pattern(case),
                picture=draw_tile(errors.expected, errors.actual, off, at=mismatch.worst.index),
            )
        return Comparison(
            right=self.bad is None,
            ratio=min(self.ratio, HUGE),
            rel_l2=errors.rel_l2,
            max_abs=errors.max_abs,
            rms=errors.rms,
            worst_row_rel=None if errors.row_rel is None else float(errors.row_rel.max()),
            num_not_finite=int(np.count_nonzero(errors.not_finite)),
            reason=self.reason,
            mismatch=mismatch,
        )


NOTHING_KNOWN = Context()


def compare(
    expected: Array,
    actual: Array,
    *,
    dtype: DType,
    tolerance: Tolerance,
    context: Context | None = NOTHING_KNOWN,
) -> Comparison:
    """Measure `actual`, stored in `dtype`, against `expected` in float64 (or exact integers).

    `context` helps to guess the cause of a wrong output; None leaves `mismatch` out, for callers
    that only need the error.
    """
    if actual.shape != expected.shape:
        reason = f"shape is {list(actual.shape)} instead of {list(expected.shape)}"
        return Comparison(right=False, ratio=HUGE, reason=reason)
    if actual.dtype != dtype.numpy_dtype:
        reason = f"dtype is {actual.dtype} instead of {dtype.value}"
        return Comparison(right=False, ratio=HUGE, reason=reason)
    if tolerance.gate is Gate.EXACT or dtype.itemsize == _ONE_BYTE:
        expected = _round_to(expected, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        quick = _compare_quickly(expected, actual, tolerance)
    if quick is not None:
        return quick
    found = _find(expected, actual, dtype=dtype, tolerance=tolerance)
    return found.finish(dtype=dtype, limit=tolerance.rel_l2, context=context)


def surely_misses(expected: Array, actual: Array, *, tolerance: Tolerance, by: float) -> bool:
    """Whether the error is clearly over `by` times the limits; False where float64 must tell."""
    if tolerance.gate is not Gate.REAL or actual.dtype.itemsize == _ONE_BYTE:
        return False
    if actual.shape != expected.shape:
        return False
    shape = _row_shape(expected.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = expected.astype(np.float32).reshape(shape)
        difference = actual.astype(np.float32, copy=False).reshape(shape) - wanted
        square = float(np.vecdot(wanted, wanted).sum(dtype=np.float64))
        error = float(np.vecdot(difference, difference).sum(dtype=np.float64))
    if not (_QUICK_LOW < square < _QUICK_HIGH and error < _QUICK_HIGH):
        return False
    return error > (_CLEARLY * by * tolerance.rel_l2) ** 2 * square


def _find(expected: Array, actual: Array, *, dtype: DType, tolerance: Tolerance) -> _Finding:
    match tolerance.gate:
        case Gate.EXACT:
            return _compare_exact(expected, actual, dtype=dtype)
        case Gate.CODES:
            return _compare_codes(expected, actual, tolerance)
        case Gate.REAL:
            return _compare_reals(expected, actual, dtype=dtype, tolerance=tolerance)


def _compare_exact(expected: Array, actual: Array, *, dtype: DType) -> _Finding:
    errors = _measure(expected, actual, dtype=dtype)
    wrong = _differs(expected, actual)
    if not wrong.any():
        return _Finding(errors=errors, ratio=0.0)
    reason = "it must be equal element for element, and is not"
    return _Finding(errors=errors, ratio=HUGE, bad=wrong, reason=reason)


def _compare_codes(expected: Array, actual: Array, tolerance: Tolerance) -> _Finding:
    errors = _measure(expected, actual, dtype=None)
    if errors.not_finite.any():
        return _not_finite(errors)
    steps = np.abs(ordinals(actual) - ordinals(expected))
    most = int(steps.max(initial=0))
    off_share = float(np.count_nonzero(steps)) / max(1, steps.size)
    # The step that is allowed is a tie, and says nothing of how near the limits are.
    beyond = most / CODE_STEPS if most > CODE_STEPS else 0.0
    share = _share_of(off_share, tolerance.code_share)
    ratio = max(errors.rel_l2 / tolerance.rel_l2, beyond, share)
    if ratio <= 1.0:
        return _Finding(errors=errors, ratio=ratio)
    where = "near a tie" if tolerance.code_share == 0 else f"on {tolerance.code_share:.1%} of them"
    reason = (
        f"codes may be {CODE_STEPS} step off {where}; they are up to {most} off on "
        f"{np.count_nonzero(steps)} of {steps.size}"
    )
    return _Finding(errors=errors, ratio=ratio, bad=steps > 0, reason=reason)


def _share_of(found: float, allowed: float) -> float:
    if found == 0.0:
        return 0.0
    return found / allowed if allowed else HUGE


def ordinals(codes: Array) -> NDArray[np.int64]:
    """Where each code stands in the order of its format; the two zeros share a place."""
    codes = np.atleast_1d(codes)
    if codes.dtype.kind in "iub":
        return codes.astype(np.int64)
    bits = codes.view(np.int8).astype(np.int64)
    # The sign bit leads, the rest is the magnitude.
    places: NDArray[np.int64] = np.where(bits < 0, -(bits & 127), bits)
    return places


def _not_finite(errors: _Errors) -> _Finding:
    count = int(np.count_nonzero(errors.not_finite))
    reason = f"{count} elements are not what a finite reference expects (NaN or infinite)"
    return _Finding(errors=errors, ratio=HUGE, bad=errors.not_finite, reason=reason)


def _compare_quickly(expected: Array, actual: Array, tolerance: Tolerance) -> Comparison | None:
    """Accept a right answer without float64; None where that must decide."""
    match tolerance.gate:
        case Gate.EXACT:
            return _compare_equal(expected, actual)
        case Gate.CODES:
            return None
        case Gate.REAL:
            return _compare_in_float32(expected, actual, tolerance)


def _compare_equal(expected: Array, actual: Array) -> Comparison | None:
    if _differs(expected, actual).any():
        return None
    rows = expected.reshape(_row_shape(expected.shape)).astype(np.float32)
    rms = float(np.sqrt(np.vecdot(rows, rows).astype(np.float64).sum() / rows.size))
    return Comparison(
        right=True, ratio=0.0, rel_l2=0.0, max_abs=0.0, rms=rms if np.isfinite(rms) else None
    )


def _compare_in_float32(expected: Array, actual: Array, tolerance: Tolerance) -> Comparison | None:
    wanted = expected.astype(np.float32).reshape(_row_shape(expected.shape))
    difference = np.subtract(to_single(actual).reshape(wanted.shape), wanted)
    row_wanted = np.vecdot(wanted, wanted).astype(np.float64)
    row_error = np.vecdot(difference, difference).astype(np.float64)
    square, error = float(row_wanted.sum()), float(row_error.sum())
    # NaN and infinity fail this test too.
    if not (_QUICK_LOW < square < _QUICK_HIGH and error < _QUICK_HIGH):
        return None
    rms = float(np.sqrt(square / wanted.size))
    rel_l2 = float(np.sqrt(error / square))
    max_abs = max(float(difference.max()), -float(difference.min()))
    worst_row = None
    if expected.ndim >= _MATRIX_RANK:
        floor = tolerance.floor_of(wanted.shape[1])
        worst_row = float(_row_relative(np.sqrt(row_error), np.sqrt(row_wanted), floor).max())
    ratio = _ratio(rel_l2, max_abs / rms, worst_row, tolerance)
    if ratio > _QUICK_RATIO:
        return None
    return Comparison(
        right=True, ratio=ratio, rel_l2=rel_l2, max_abs=max_abs, rms=rms, worst_row_rel=worst_row
    )


def _compare_reals(
    expected: Array, actual: Array, *, dtype: DType, tolerance: Tolerance
) -> _Finding:
    width = expected.shape[-1] if expected.ndim else 1
    errors = _measure(expected, actual, dtype=dtype, row_floor=tolerance.floor_of(width))
    rms = max(errors.rms, TINY)
    worst_row = None if errors.row_rel is None else float(errors.row_rel.max())
    size = np.abs(errors.difference)
    # A large element has a large rounding error of its own; what exceeds it counts.
    own = POINT_FACTOR * tolerance.rel_l2 * np.abs(errors.expected)
    excess = np.maximum(size - own, 0.0)
    largest = float(excess.max(initial=0.0))
    ratio = _ratio(errors.rel_l2, largest / rms, worst_row, tolerance)
    if errors.not_finite.any():
        return _not_finite(errors)
    if ratio <= 1.0:
        return _Finding(errors=errors, ratio=ratio)
    if errors.rel_l2 > tolerance.rel_l2:
        bad = size > tolerance.rel_l2 * np.maximum(rms, np.abs(errors.expected))
        if not bad.any():
            bad = size > tolerance.rel_l2 * rms
        reason = f"relative L2 error is {errors.rel_l2:.2e}, but the limit is {tolerance.rel_l2:g}"
    elif largest > tolerance.max_abs * rms:
        bad = excess > tolerance.max_abs * rms
        reason = (
            f"largest error is {largest / rms:.2e} of the root mean square, "
            f"but the limit is {tolerance.max_abs:g}"
        )
    else:
        limit = ROW_FACTOR * tolerance.rel_l2
        bad = _bad_in_rows(errors, limit)
        reason = f"a row's relative L2 error is {worst_row:.2e}, but the limit is {limit:g}"
    return _Finding(errors=errors, ratio=ratio, bad=bad, reason=reason)


def _measure(
    expected: Array, actual: Array, *, dtype: DType | None, row_floor: float = ROW_FLOOR
) -> _Errors:
    """All errors in float64. `dtype` None means integers, where nothing can overflow."""
    exact = wanted = np.atleast_1d(expected.astype(np.float64, copy=False))
    narrow = to_single(actual) if actual.dtype == BFLOAT16 else actual
    got = np.atleast_1d(narrow.astype(np.float64))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = got - wanted
    if np.isfinite(difference).all():
        not_finite = np.zeros(difference.shape, dtype=np.bool_)
    else:
        rounded = wanted if dtype is None else _round_to(wanted, dtype).astype(np.float64)
        unusual = ~(np.isfinite(got) & np.isfinite(wanted))
        not_finite = unusual & _differs(rounded, got)
        difference[unusual] = 0.0
        wanted = np.where(unusual, 0.0, wanted)
    rows = difference.reshape(_row_shape(difference.shape))
    row_error = np.sqrt(np.vecdot(rows, rows))
    flat = wanted.reshape(rows.shape)
    row_wanted = np.sqrt(np.vecdot(flat, flat))
    norm = float(np.sqrt(np.vecdot(row_wanted, row_wanted)))
    error = float(np.sqrt(np.vecdot(row_error, row_error)))
    return _Errors(
        expected=exact,
        actual=got,
        difference=difference,
        not_finite=not_finite,
        rel_l2=error / max(norm, TINY),
        max_abs=float(np.abs(difference).max()),
        rms=norm / float(np.sqrt(wanted.size)),
        row_rel=_row_relative(row_error, row_wanted, row_floor)
        if expected.ndim >= _MATRIX_RANK
        else None,
    )


def _off(errors: _Errors, bad: NDArray[np.bool_], limit: float) -> NDArray[np.bool_]:
    """Elements beyond the limit of their own size: small ones show a pattern's edges too."""
    if limit == 0:
        return bad.reshape(errors.expected.shape)
    size = np.maximum(np.abs(errors.expected), OWN_FLOOR * errors.rms)
    with np.errstate(invalid="ignore"):
        off: NDArray[np.bool_] = np.abs(errors.difference) > limit * size
    off |= errors.not_finite
    return off if off.any() else bad.reshape(off.shape)


def _locate(errors: _Errors, bad: NDArray[np.bool_]) -> Mismatch:
    size = np.abs(errors.difference)
    size[errors.not_finite] = np.inf
    shape = errors.expected.shape
    worst_row = None
    if errors.row_rel is not None:
        lead = np.unravel_index(int(errors.row_rel.argmax()), shape[:-1])
        worst_row = tuple(int(i) for i in lead)
    return Mismatch(
        first=_element(errors, int(bad.argmax())),
        worst=_element(errors, int(size.argmax())),
        num_bad=int(np.count_nonzero(bad)),
        num_elems=bad.size,
        worst_row=worst_row,
    )


def _element(errors: _Errors, flat_index: int) -> Element:
    shape = errors.expected.shape
    index = tuple(int(i) for i in np.unravel_index(flat_index, shape))
    return Element(
        index=index,
        tile=name_tile(index, shape),
        got=_number(errors.actual[index]),
        expected=_number(errors.expected[index]),
    )


def _ratio(rel_l2: float, max_share: float, worst_row: float | None, tolerance: Tolerance) -> float:
    row = 0.0 if worst_row is None else worst_row / (ROW_FACTOR * tolerance.rel_l2)
    return max(rel_l2 / tolerance.rel_l2, max_share / tolerance.max_abs, row)


def _row_relative(row_error: Reals, row_wanted: Reals, share: float) -> Reals:
    """Each row's error over its norm, the norm being at least a share of the typical row's.

    That is the median, or a share of the average where most rows are next to nothing.
    """
    average = float(np.sqrt(np.mean(np.square(row_wanted))))
    typical = max(float(np.median(row_wanted)), AVERAGE_SHARE * average)
    # What cancels to nothing keeps a rounding of its terms, which were of the size of the others.
    shares = np.where(row_wanted < VANISHED * typical, CHAIN_ROW_FLOOR, share)
    relative: Reals = row_error / np.maximum(row_wanted, np.maximum(shares * typical, TINY))
    return relative


def _bad_in_rows(errors: _Errors, limit: float) -> NDArray[np.bool_]:
    """In rows over the limit, the elements with at least that row's average error."""
    assert errors.row_rel is not None
    rows = errors.difference.reshape(_row_shape(errors.difference.shape))
    average = np.sqrt(np.mean(np.square(rows), axis=1, keepdims=True))
    bad = (np.abs(rows) >= average * (1 - 1e-9)) & (errors.row_rel.reshape(-1, 1) > limit)
    bad_elements: NDArray[np.bool_] = bad.reshape(errors.difference.shape)
    return bad_elements


def _row_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows are the last axis; a vector is one row."""
    free = shape[-1] if shape else 1
    partitions = 1
    for size in shape[:-1]:
        partitions *= size
    return partitions, free


def _round_to(expected: Array, dtype: DType) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return expected.astype(dtype.numpy_dtype)


def _differs(expected: Array, actual: Array) -> NDArray[np.bool_]:
    """Elementwise: equal values are equal, and NaN is equal to NaN."""
    wrong: NDArray[np.bool_] = np.atleast_1d(expected != actual)
    if wrong.any() and expected.dtype.kind not in "iub":
        both_nan = np.isnan(expected.astype(np.float64)) & np.isnan(actual.astype(np.float64))
        wrong &= ~both_nan
    return wrong


def _number(value: np.float64) -> float | str:
    number = float(value)
    return number if np.isfinite(number) else str(number)


def _show(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value + 0.0:.6g}"
