"""The likely causes of a wrong output, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nki_agent.isa.dtype import DType
from nki_agent.task.family import Family

Reals = NDArray[np.float64]
Mask = NDArray[np.bool_]

SAME = 1e-2
"""Difference under which two patterns count as the same, as a share of their spread."""
SAME_MAX = 0.1
"""The same where rounding adds to it."""
SAMPLE_MAX = 1 << 14
_FLOAT32_NOISE = 2e-4


class Cause(StrEnum):
    """What a kernel probably did wrong."""

    SHIFTED = "shifted"
    SWAPPED_TILES = "swapped tiles"
    STALE = "stale values"
    PERMUTED = "transposed"
    MISSING_TAIL = "missing tail"
    UNWRITTEN = "unwritten"
    CONSTANT = "constant"
    COPY = "copy of an input"
    SCALED = "wrong scale"
    OFFSET = "wrong offset"
    CLAMP = "missing or extra clamp"
    WRONG_AXIS = "wrong axis"
    MISSING_ACCUMULATION = "missing accumulation"
    LOST_PRECISION = "lost precision"
    ROUNDING = "wrong rounding"
    WRONG_FUNCTION = "another function"
    OVERFLOW = "overflow"
    MISSING_MAXIMUM = "missing row maximum"
    MISSING_EPSILON = "missing epsilon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A cause and the sentence for it; None where only the sentence is certain."""

    cause: Cause | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known of a trial beside its output."""

    inputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    family: Family = Family.STANDARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One wrong output, or the wrong part of one, in float64."""

    expected: Reals
    actual: Reals
    bad: Mask
    dtype: DType | None = None
    context: Context = field(default_factory=Context)

    @property
    def noise(self) -> float:
        """Relative error that a value may have for other reasons: a rounding, or a few."""
        if self.dtype is None or not self.dtype.is_float:
            return _FLOAT32_NOISE
        return max(_FLOAT32_NOISE, eps_of(self.dtype))

    def sample(self) -> Case:
        """At most `SAMPLE_MAX` elements, evenly spread, as a vector."""
        step = -(-self.expected.size // SAMPLE_MAX)
        return Case(
            expected=self.expected.ravel()[::step],
            actual=self.actual.ravel()[::step],
            bad=self.bad.ravel()[::step],
            dtype=self.dtype,
            context=self.context,
        )

    def is_same(self, left: Reals, right: Reals) -> bool:
        """Whether two patterns agree but for rounding, and vary enough to say so."""
        spread = norm(left - left.mean())
        allowed = SAME * spread + self.noise * norm(left)
        return norm(left - right) < min(allowed, SAME_MAX * spread)

    def part(self, box: tuple[slice, ...]) -> Case:
        """The same case inside a box."""
        return Case(
            expected=self.expected[box],
            actual=self.actual[box],
            bad=self.bad[box],
            dtype=self.dtype,
            context=self.context,
        )


def eps_of(dtype: DType) -> float:
    """The step from 1 to the next number of a float format."""
    return float(ml_dtypes.finfo(dtype.numpy_dtype).eps)  # type: ignore[no-untyped-call]


def largest_of(dtype: DType) -> float:
    """The largest finite number of a float format."""
    return float(ml_dtypes.finfo(dtype.numpy_dtype).max)  # type: ignore[no-untyped-call]


def norm(values: Reals) -> float:
    """The L2 norm of all elements."""
    return float(np.linalg.norm(values.ravel()))
