"""What kind of values an array holds, and how to draw others of that kind.

Law: a drawn array has the kind of its sample (sign, range, levels, order), never its values; a
varied one has another scale and mean than the inputs function gave it, so that no output has a
known mean or scale. Kinds that a scale would break (masks, whole numbers, probabilities) keep
theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SCALE_LOW, SCALE_HIGH = 0.7, 1.4
"""Range of the factor that a trial draws for each array of real values."""
MEAN_SHARE = 0.25
"""A trial moves the mean by up to this share of the standard deviation."""
CONSTANT_SPREAD = 0.2
"""Relative standard deviation around a constant such as a gain of one."""
ZERO_SPREAD = 0.1
"""Standard deviation around zero, for biases."""
CLIP = 3.0
"""Draws around a constant stay within this many deviations, so that they keep its sign."""
ENDS = 2
SIMPLEX_SLACK = 1e-3
"""How close to one the rows of probabilities sum."""
NUM_LEVELS_MAX = 2
"""Reals with at most this many distinct values are a mask."""
WHOLE_MAX = 2.0**24
"""From here on every float32 is a whole number, which then says nothing about its meaning."""
_TINY = np.finfo(np.float32).tiny


class Recipe(StrEnum):
    """A kind of values."""

    NORMAL = "normal"  # reals of both signs
    POSITIVE = "positive"  # never negative
    UNIT = "unit"  # from zero to one
    SIMPLEX = "simplex"  # rows along the last axis that sum to one
    WHOLE = "whole"  # reals that are whole numbers: positions, lengths, counts
    LEVELS = "levels"  # two distinct values, or infinities: a mask
    CONSTANT = "constant"  # one value everywhere: a gain, a bias
    RANGE = "range"  # integers between two bounds
    UNIQUE = "unique"  # integers, none twice
    SORTED = "sorted"  # integers that never fall, between a fixed first and last one


class Variation(StrEnum):
    """How far a trial moves the values that the inputs function gives."""

    FULL = "full"
    SHRINK = "shrink"  # towards zero only: references with a bounded domain
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A sample's recipe and its figures."""

    recipe: Recipe
    mean: float = 0.0
    std: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @property
    def is_real(self) -> bool:
        """Whether a family may scale it."""
        return self.recipe in {Recipe.NORMAL, Recipe.POSITIVE, Recipe.CONSTANT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """Factor and shift of one array in one trial; the shift counts in standard deviations."""

    factor: float
    shift: float


STANDARD_STRENGTH = Strength(factor=1.0, shift=0.0)


def infer_profile(sample: Array) -> Profile:
    """Look at one sample; booleans come as 0 and 1 of an unsigned type."""
    if sample.dtype.kind in "iub":
        return _profile_integers(sample)
    values = sample.astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        return Profile(recipe=Recipe.LEVELS)
    low, high = float(values.min()), float(values.max())
    mean = float(values.mean(dtype=np.float64))
    figures = {"mean": mean, "std": float(values.std()), "low": low, "high": high}
    return Profile(recipe=_name_reals(values, low=low, high=high), **figures)


def _name_reals(values: NDArray[np.float32], *, low: float, high: float) -> Recipe:
    if low == high:
        return Recipe.CONSTANT
    if values.size > NUM_LEVELS_MAX and ((values == low) | (values == high)).all():
        return Recipe.LEVELS
    is_counting = max(-low, high) < WHOLE_MAX and values.size > NUM_LEVELS_MAX
    if is_counting and (values == np.rint(values)).all():
        return Recipe.WHOLE
    if low < 0:
        return Recipe.NORMAL
    sums = values.sum(axis=-1)
    if values.shape[-1] > 1 and np.abs(sums - 1.0).max() < SIMPLEX_SLACK:
        return Recipe.SIMPLEX
    return Recipe.UNIT if high <= 1.0 else Recipe.POSITIVE


def _profile_integers(sample: Array) -> Profile:
    low, high = float(sample.min()), float(sample.max())
    flat = sample.astype(np.int64).ravel()
    steps = np.diff(flat)
    if low >= 0 and high <= 1 and sample.dtype.kind in "ub":
        recipe = Recipe.LEVELS
    elif flat.size > 1 and (steps == 1).all():
        recipe = Recipe.UNIQUE
    elif flat.size > 1 and low < high and (steps >= 0).all():
        recipe = Recipe.SORTED
    elif flat.size > 1 and np.unique(flat).size == flat.size:
        recipe = Recipe.UNIQUE
    else:
        recipe = Recipe.RANGE
    return Profile(recipe=recipe, low=low, high=high)


def draw_strength(rng: np.random.Generator) -> Strength:
    """Factor and shift of one array."""
    return Strength(
        factor=float(rng.uniform(SCALE_LOW, SCALE_HIGH)),
        shift=float(rng.uniform(-MEAN_SHARE, MEAN_SHARE)),
    )


def draw(profile: Profile, given: Array, rng: np.random.Generator, *, strength: Strength) -> Array:
    """Draw other values of the sample's kind; reals come in float32."""
    match profile.recipe:
        case Recipe.NORMAL:
            values = rng.standard_normal(given.shape, dtype=np.float32)
            values *= np.float32(profile.std * strength.factor)
            values += np.float32(profile.mean + profile.std * strength.shift)
            return values
        case Recipe.POSITIVE | Recipe.UNIT:
            span = np.float32(profile.high - profile.low)
            return rng.random(given.shape, dtype=np.float32) * span + np.float32(profile.low)
        case Recipe.SIMPLEX:
            weights = rng.random(given.shape, dtype=np.float32) + np.float32(1e-3)
            return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
        case Recipe.CONSTANT:
            return _draw_around(profile.mean, given.shape, rng)
        case Recipe.LEVELS:
            return rng.permuted(given, axis=_last_long_axis(given.shape))
        case Recipe.UNIQUE:
            return rng.permutation(given.ravel()).reshape(given.shape)
        case Recipe.SORTED:
            return _draw_sorted(given, rng)
        case Recipe.RANGE | Recipe.WHOLE:
            low, high = int(profile.low), int(profile.high)
            whole = put_ends(rng.integers(low, high + 1, given.shape), low, high, rng)
            return whole.astype(given.dtype)


def put_ends(values: Array, low: int, high: int, rng: np.random.Generator) -> Array:
    """The values with both ends of their range among them: first and last entries of a table."""
    if values.size >= ENDS:
        values.ravel()[rng.permutation(values.size)[:ENDS]] = low, high
    return values


def _last_long_axis(shape: tuple[int, ...]) -> int:
    """The last axis along which a permutation changes anything: each row keeps its counts."""
    long = [axis for axis, size in enumerate(shape) if size > 1]
    return long[-1] if long else -1


def _draw_around(value: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    spread = abs(value) * CONSTANT_SPREAD if value else ZERO_SPREAD
    noise = np.clip(rng.standard_normal(shape, dtype=np.float32), -CLIP, CLIP)
    return noise * np.float32(spread) + np.float32(value)


def _draw_sorted(given: Array, rng: np.random.Generator) -> Array:
    """Other steps between the same first and last value; strict order stays strict."""
    flat = given.astype(np.int64).ravel()
    low, high, count = int(flat[0]), int(flat[-1]), flat.size
    if (np.diff(flat) > 0).all():
        inner = low + 1 + rng.choice(high - low - 1, size=count - 2, replace=False)
    else:
        inner = rng.integers(low, high + 1, size=count - 2)
    values = np.concatenate([[low], np.sort(inner), [high]])
    return values.reshape(given.shape).astype(given.dtype)


def vary(values: Array, profile: Profile, *, variation: Variation, strength: Strength) -> Array:
    """Move values of an inputs function to another scale and mean; may change `values` itself."""
    if variation is Variation.NONE or not _may_scale(profile.recipe):
        return values
    reals = values.astype(np.float32, copy=False)
    bounded = variation is Variation.SHRINK or profile.recipe is Recipe.UNIT
    factor = min(1.0, strength.factor) if bounded else strength.factor
    reals *= np.float32(factor)
    if profile.recipe is Recipe.NORMAL and not bounded:
        reals += np.float32(factor * strength.shift * profile.std)
    return reals


def _may_scale(recipe: Recipe) -> bool:
    return recipe in {Recipe.NORMAL, Recipe.POSITIVE, Recipe.UNIT}


def separate(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Move equal values of a row apart by their last digit: sorting then has one right answer."""
    values = np.ascontiguousarray(values)
    rows = values.reshape(-1, values.shape[-1])
    ordered = np.sort(rows, axis=1)
    for index in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):
        order = np.argsort(rows[index], kind="stable")
        rows[index, order] = _rising(rows[index, order])
    return values


def _rising(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same sorted values, each that is not above the one before it moved just above."""
    while (stuck := np.flatnonzero(values[1:] <= values[:-1])).size:
        above = np.nextafter(values[stuck], np.float32(np.inf))
        # An engine may take a smaller number for zero.
        values[stuck + 1] = np.where(np.abs(above) < _TINY, _TINY, above)
    return values
