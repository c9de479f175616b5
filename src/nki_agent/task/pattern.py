"""Guesses why an output is wrong from the pattern of its errors.

The guess is one short sentence for a person or a model: which part is wrong, and what the values in
that part look like. It is never part of the verdict. A wrong guess is worse than none: each test
asks for evidence that the other causes do not leave.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from nki_agent.task.cause import Case, Cause, Guess, largest_of
from nki_agent.task.factors import find_line_factors, find_scale
from nki_agent.task.family import Family
from nki_agent.task.moved import find_move, find_permutation
from nki_agent.task.region import find_region, is_tail
from nki_agent.task.replay import find_copy, find_replay
from nki_agent.task.residual import (
    find_clamp,
    find_function,
    find_missing_terms,
    find_precision,
    find_rounding,
    find_running,
)

ELEMS_MAX = 1 << 20
"""Elements looked at; the leading part of larger outputs says enough."""
_LARGE_SHARE = 1e-2
"""Of the dtype's largest value: expected ones above it lie near an overflow."""

# In this order: what is exact comes before what is likely.
_STEPS: tuple[Callable[[Case], Guess | None], ...] = (
    find_clamp,
    find_copy,
    find_scale,
    find_permutation,
    find_move,
    find_replay,
    find_running,
    find_line_factors,
    find_rounding,
    find_function,
    find_precision,
    find_missing_terms,
)
# Their evidence lies outside of the wrong part.
_WHOLE_STEPS = (find_move, find_running)
# On tiny inputs all functions are straight lines: a missing epsilon looks like another of them.
_SCALED_AWAY = (find_function, find_missing_terms)


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """Which part is wrong, and why it may be."""

    place: str = ""
    cause: Cause | None = None
    text: str = ""

    def __str__(self) -> str:
        """`missing tail: all of axis 0 256..299 of 300 (…) is wrong, the rest is right: …`."""
        parts = (self.cause.value if self.cause else "", self.place, self.text)
        return ": ".join(part for part in parts if part)


def guess_pattern(case: Case) -> Pattern:
    """Say which part is wrong and what it looks like; empty where nothing fits."""
    if not case.bad.any():
        return Pattern()
    case = _shorten(case)
    if not case.bad.any():
        return Pattern()
    box, place = find_region(case.bad)
    part = case.part(box)
    with np.errstate(all="ignore"):
        guess = _guess_whole(case, part) if place else _guess(part)
    if guess is None:
        return Pattern(place=place)
    cause = guess.cause
    if cause in {Cause.UNWRITTEN, Cause.CONSTANT} and is_tail(box, case.bad.shape):
        cause = Cause.MISSING_TAIL
    return Pattern(place=place, cause=cause, text=guess.text)


def _shorten(case: Case) -> Case:
    """At most `ELEMS_MAX` elements: the first of the leading axis that are wrong."""
    row = max(1, case.expected[:1].size)
    rows = max(1, ELEMS_MAX // row)
    if case.expected.shape[0] <= rows:
        return case
    return case.part((slice(0, rows),))


def _guess_whole(case: Case, part: Case) -> Guess | None:
    """A part is wrong: the values in it may come from elsewhere."""
    if found := _guess_plain(part):
        return found
    for step in _WHOLE_STEPS:
        if found := step(case):
            return found
    return _guess(part)


def _guess(case: Case) -> Guess | None:
    if found := _guess_plain(case):
        return found
    is_tiny = case.context.family is Family.TINY
    for step in _STEPS:
        if is_tiny and step in _SCALED_AWAY:
            continue
        if found := step(case):
            return found
    if is_tiny:
        text = "wrong on tiny inputs only: an epsilon is missing, or of another size?"
        return Guess(cause=Cause.MISSING_EPSILON, text=text)
    return None


def _guess_plain(case: Case) -> Guess | None:
    """Values that are not finite, or all alike."""
    finite = np.isfinite(case.actual)
    if not (finite.all() and np.isfinite(case.expected).all()):
        return _guess_not_finite(case)
    first = case.actual.flat[0]
    if case.actual.size > 1 and (case.actual == first).all():
        if first == 0:
            return Guess(cause=Cause.UNWRITTEN, text="the output is zeros there: never stored?")
        return Guess(cause=Cause.CONSTANT, text=f"the output is the constant {first:g} there")
    return None


def _guess_not_finite(case: Case) -> Guess:
    actual = case.actual
    finite, infinite = np.isfinite(actual), np.isinf(actual)
    where = f"{np.count_nonzero(~finite)} values are not finite"
    match case.context.family:
        case Family.BIG:
            if _is_near_overflow(case):
                text = f"{where}, on big inputs only: they pass the dtype's largest value"
                return Guess(cause=Cause.OVERFLOW, text=text)
            text = f"{where}, on big inputs only: subtract the row maximum before exp"
            return Guess(cause=Cause.MISSING_MAXIMUM, text=text)
        case Family.TINY:
            text = f"{where}, on tiny inputs only: an epsilon is missing in a divisor or root"
            return Guess(cause=Cause.MISSING_EPSILON, text=text)
        case Family.LOW:
            text = f"{where}, on rows far below zero only: a row maximum must not start at 0"
            return Guess(cause=Cause.MISSING_MAXIMUM, text=text)
        case Family.STANDARD:
            if np.isnan(actual).all():
                return Guess(cause=Cause.UNWRITTEN, text="never written, or NaN throughout")
            if infinite.any():
                text = f"{where}, {np.count_nonzero(infinite)} of them infinite: an overflow"
                return Guess(cause=Cause.OVERFLOW, text=text)
            return Guess(cause=None, text=f"{where}: unwritten, or a root or log below 0")


def _is_near_overflow(case: Case) -> bool:
    """Whether the expected values are large for the dtype where the actual ones are not finite."""
    if case.dtype is None or not case.dtype.is_float:
        return False
    wanted = np.abs(case.expected[~np.isfinite(case.actual)])
    return bool(wanted.size) and float(np.median(wanted)) > _LARGE_SHARE * largest_of(case.dtype)
