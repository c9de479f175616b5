"""Intervals around shares and means, so that a table shows what its figures are worth.

Law: a share has Wilson's interval, which holds for few tasks and for shares near 0 and 1; any other
figure has a percentile bootstrap over tasks, drawn by a generator that the caller passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 2000
"""Bootstrap draws; the ends of an interval then move by about a hundredth of its width."""

Reals = NDArray[np.float64]


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A figure and the range that holds it with the given confidence."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        """The same in another unit."""
        return Interval(value=self.value * factor, low=self.low * factor, high=self.high * factor)


def wilson(successes: int, total: int, *, confidence: float = CONFIDENCE) -> Interval:
    """The share of successes.

    Raises:
        ValueError: there are none to count, or more successes than tries.
    """
    if not 0 <= successes <= total or total == 0:
        raise ValueError(f"{successes} of {total}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / total
    spread = 1 + z * z / total
    centre = (share + z * z / (2 * total)) / spread
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / spread
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == total else min(1.0, centre + half)
    return Interval(value=share, low=low, high=high)


def bootstrap(
    values: Sequence[float],
    statistic: Callable[[Reals], Reals],
    *,
    rng: np.random.Generator,
    confidence: float = CONFIDENCE,
) -> Interval:
    """A statistic over the last axis of `values`, one value a task.

    Raises:
        ValueError: there are no values.
    """
    found = np.asarray(values, dtype=np.float64)
    if found.size == 0:
        raise ValueError("no values")
    drawn = statistic(rng.choice(found, size=(RESAMPLES, found.size), replace=True))
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(value=float(statistic(found)), low=float(low), high=float(high))


def mean(values: Reals) -> Reals:
    """Over the last axis."""
    return np.asarray(np.mean(values, axis=-1))


def median(values: Reals) -> Reals:
    """Over the last axis."""
    return np.asarray(np.median(values, axis=-1))


def geometric_mean(values: Reals) -> Reals:
    """Over the last axis, of positive values."""
    return np.asarray(np.exp(np.mean(np.log(values), axis=-1)))
