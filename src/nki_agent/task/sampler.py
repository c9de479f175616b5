"""Draws the tensor arguments of a user's task from a seed.

Law: every array comes from the trial's seed and the argument's name alone. Values of the user's
inputs function are moved to another scale and mean; arrays that the function gives alike under two
seeds, and all weights, are drawn by the recipe of their kind, so that no value of the task file can
be known to a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.task.family import OFF_EDGE, FamilyScale
from nki_agent.task.inputs import InputsFunction
from nki_agent.task.named_recipe import TABLES, NamedRecipe
from nki_agent.task.outlying import Lane, add_outliers, zero_row
from nki_agent.task.recipe import (
    MEAN_SHARE,
    Profile,
    Recipe,
    Strength,
    Variation,
    draw,
    draw_strength,
    separate,
    vary,
)
from nki_agent.task.shifting import draw_sides
from nki_agent.task.task import TensorKind
from nki_agent.task.values import to_array, to_stored

Array = NDArray[Any]
Key = str | int
"""A name or a position among the values of an inputs function."""


class Origin(StrEnum):
    """Where a trial takes an argument's values from."""

    FUNCTION = "function"  # the user's inputs function, then varied
    DRAWN = "drawn"  # our own draw by recipe
    DECLARED = "declared"  # by the recipe that the file names
    GIVEN = "given"  # as in the file: other values break the reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """How one argument's values are made."""

    name: str
    key: Key
    kind: TensorKind
    dtype: DType
    profile: Profile
    origin: Origin
    given: Array
    """The sample seen while loading, in its stored shape; draws look at shape, dtype and order.

    Where values are declared it may be one element that is repeated.
    """
    recipe: NamedRecipe | None = None
    """What the file declares; only then is it there."""
    is_shiftable: bool = False
    """Whether the reference ignores an offset on this input, or passes it through."""
    free_axes: tuple[int, ...] = ()
    """Axes along which each place of a shiftable input may have an offset of its own."""

    @property
    def is_weight(self) -> bool:
        """Whether it is a matrix of weights, of both signs."""
        is_real = self.dtype.is_float and self.dtype.itemsize > 1
        if self.recipe is not None:
            return is_real and self.recipe.name in {"weight", "weight_out_in"}
        is_parameter = self.kind is TensorKind.PARAMETER and self.given.ndim > 1
        return is_real and is_parameter and self.profile.recipe is Recipe.NORMAL

    @property
    def depth(self) -> int:
        """How many weights one product may add up, in either order of the axes.

        Their mean adds up as their number does and their spread as its root: a mean of a share of
        the spread would decide the sign of every product with inputs that are never negative.
        """
        first: int = self.given.shape[0]
        return max(first, self.given.size // first)

    @property
    def is_gain(self) -> bool:
        """Whether it is a vector of factors around a constant, as a norm has one a feature."""
        if self.kind is not TensorKind.PARAMETER or self.given.size == 1:
            return False
        if self.recipe is not None:
            return self.recipe.name == "gain"
        return self.profile.recipe is Recipe.CONSTANT and self.profile.mean > 0

    @property
    def is_added(self) -> bool:
        """Whether it is a parameter around zero that is no matrix of weights: a bias, a table."""
        is_real = self.dtype.is_float and self.dtype.itemsize > 1
        if self.kind is not TensorKind.PARAMETER or self.is_weight or not is_real:
            return False
        if self.recipe is not None:
            return self.recipe.name in {"normal", "bias"}
        is_zero = self.profile.recipe is Recipe.CONSTANT and self.profile.mean == 0
        return is_zero or self.profile.recipe is Recipe.NORMAL

    @property
    def is_structured(self) -> bool:
        """Whether a redraw may break what the reference expects of the values."""
        return self.origin is not Origin.DECLARED and self.profile.recipe in {
            Recipe.LEVELS,
            Recipe.WHOLE,
            Recipe.RANGE,
            Recipe.UNIQUE,
            Recipe.SORTED,
            Recipe.SIMPLEX,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSampler:
    """The sampler of a task that came from a file; `function` is None where all is declared."""

    function: InputsFunction | None
    sources: tuple[Source, ...]
    variation: Variation = Variation.FULL
    is_distinct: bool = False
    """Whether no row of a float32 input holds a value twice, as places in an order need."""

    def draw(
        self, seed: int, scale: FamilyScale, *, factor: float | None = None
    ) -> dict[str, Array]:
        """Arrays by name. `factor` replaces the drawn scale of each array, to try the extremes.

        The mean then moves as far as it can to the same side.
        """
        values: Mapping[Key, Any] = {}
        if self.function is not None and any(
            source.origin is Origin.FUNCTION for source in self.sources
        ):
            values = index_values(self.function(seed))
        return {
            source.name: self._draw_one(source, values, seed, scale=scale, factor=factor)
            for source in self.sources
        }

    def _draw_one(
        self,
        source: Source,
        values: Mapping[Key, Any],
        seed: int,
        *,
        scale: FamilyScale,
        factor: float | None,
    ) -> Array:
        if source.origin is Origin.GIVEN:
            return source.given.copy()
        recipe = source.recipe
        shared = recipe is not None and recipe.name in TABLES
        rng = rng_for(seed, "table" if shared else source.name)
        strength = draw_strength(rng)
        if factor is not None:
            strength = Strength(factor=factor, shift=math.copysign(MEAN_SHARE, factor - 1.0))
        if source.is_weight:
            strength = replace(strength, shift=strength.shift / source.depth**0.5)
        if recipe is not None:
            array = recipe.draw(rng, source.given.shape, strength=strength)
        elif source.origin is Origin.DRAWN:
            array = draw(source.profile, source.given, rng, strength=strength)
        else:
            array = self._take(source, values)
            array = vary(array, source.profile, variation=self.variation, strength=strength)
        if source.kind is TensorKind.INPUT:
            array = self._scale_input(array, source, scale, seed)
        else:
            array = _scale_parameter(array, source, scale, self.sources, seed)
            if scale.lean and source.is_shiftable:
                spread = source.profile.std if source.is_weight else scale.factor
                array = array.astype(np.float32) - np.float32(scale.lean * spread)
        stored = to_stored(array, source.dtype)
        is_wide = source.dtype is DType.FLOAT32 and source.kind is TensorKind.INPUT
        return separate(stored) if self.is_distinct and is_wide and _is_scaled(source) else stored

    def _scale_input(self, array: Array, source: Source, scale: FamilyScale, seed: int) -> Array:
        if not self._takes(source, scale):
            return array
        lane = _find_lane(source, self.sources)
        array = _scale(array, source, scale, lane=lane, rng=rng_for(seed, "spike", source.name))
        if scale.sunk and source.is_shiftable:
            _sink(array, source, scale, rng=rng_for(seed, "sunk", source.name))
        if scale.lean and source.is_shiftable:
            array -= np.float32(scale.lean * scale.factor * source.profile.std)
        is_divisor = source.profile.recipe is Recipe.POSITIVE and source.given.ndim > 1
        if (scale.has_zero_row and lane is not None) or (scale.has_zero_divisors and is_divisor):
            zero_row(array, rng_for(seed, "zero row"))
        return array

    def _takes(self, source: Source, scale: FamilyScale) -> bool:
        """Whether the family scales it: a positive one may be what the outliers are divided by."""
        if not _is_scaled(source):
            return False
        is_divisor = source.profile.recipe is Recipe.POSITIVE and scale.has_outliers
        return not (is_divisor and any(_is_outlying(other) for other in self.sources))

    def _take(self, source: Source, values: Mapping[Key, Any]) -> Array:
        array = to_array(values[source.key])
        array = array.reshape(1) if array.ndim == 0 else array
        if array.shape != source.given.shape:
            raise TaskError(
                f"`{source.name}` has the shape "
                f"{list(array.shape)} in one call of the inputs function and "
                f"{list(source.given.shape)} in another",
                hint="shapes must not depend on chance",
            )
        return array

    def with_sources(self, sources: tuple[Source, ...]) -> UserSampler:
        """The same sampler with other sources."""
        return replace(self, sources=sources)


def index_values(values: Mapping[str, Any] | tuple[Any, ...]) -> dict[Key, Any]:
    """The values of an inputs function by their key."""
    items = values.items() if isinstance(values, Mapping) else enumerate(values)
    return {key: value for key, value in items}  # noqa: C416 - dict() would not widen the key's type


def _is_scaled(source: Source) -> bool:
    """Whether a family may scale the argument."""
    if not source.dtype.is_float or source.dtype.itemsize == 1:
        return False  # 8-bit floats would be lost in a scale: they are codes
    if source.recipe is not None:
        return source.recipe.kind.is_scaled
    return source.profile.is_real


def _is_outlying(source: Source) -> bool:
    """Whether one element may stand far out, to both sides."""
    is_both = source.profile.recipe is Recipe.NORMAL and source.profile.high > 0
    return source.kind is TensorKind.INPUT and is_both and _is_scaled(source)


def _count_lanes(sources: tuple[Source, ...]) -> int:
    """Inputs that share the columns of outliers."""
    return max(1, sum(map(_is_outlying, sources)))


def _scale_parameter(
    array: Array, source: Source, scale: FamilyScale, sources: tuple[Source, ...], seed: int
) -> Array:
    if scale.weight_outlier and source.is_weight:
        return _weigh(array, source, scale, rng=rng_for(seed, "spike", source.name))
    if scale.gain and source.is_gain:
        return _raise_gain(array, scale, count=_count_lanes(sources))
    if scale.with_biases and source.is_added:
        return array.astype(np.float32) * np.float32(scale.factor)
    return array


def _raise_gain(array: Array, scale: FamilyScale, *, count: int) -> Array:
    """Loud features at both ends, where many outliers are; each input has one there."""
    reals = array.astype(np.float32)
    num_features = reals.shape[-1]
    ends = [place for place in range(num_features) if not count <= place < num_features - count]
    reals[..., ends] *= np.float32(scale.gain)
    return reals


def _find_lane(source: Source, sources: tuple[Source, ...]) -> Lane | None:
    """The columns of its outliers; None where it has none."""
    names = [other.name for other in sources if _is_outlying(other)]
    return Lane(number=names.index(source.name), count=len(names)) if source.name in names else None


def _scale(
    array: Array,
    source: Source,
    scale: FamilyScale,
    *,
    lane: Lane | None,
    rng: np.random.Generator,
) -> Array:
    if source.profile.recipe is Recipe.CONSTANT and array.size == 1:
        return array
    # Narrow values around a wide offset would be lost to rounding, in any kernel.
    share = min(1.0, source.profile.std) if source.is_shiftable else 0.0
    outlier = scale.outlier * scale.factor * source.profile.std
    if scale.factor == 1.0 and scale.offset * share == outlier == 0.0:
        return array
    reals = array.astype(np.float32, copy=False)
    reals *= np.float32(scale.factor)
    if scale.offset * share:
        reals += np.float32(scale.offset * share)
    if scale.spike * share:
        add_outliers(reals, scale.spike * share, rng)
    elif outlier and lane is not None:
        add_outliers(reals, outlier, rng, lane=lane, off_edge=OFF_EDGE)
    if scale.grid:
        reals = np.rint(reals / np.float32(scale.grid)) * np.float32(scale.grid)
    return reals


def _sink(reals: Array, source: Source, scale: FamilyScale, *, rng: np.random.Generator) -> None:
    """Move half of the rows from their offset to the one far below zero."""
    below = draw_sides(reals.shape, source.free_axes, rng)
    share = min(1.0, source.profile.std)
    # float32 keeps narrow values there; what it costs has been tried when the task was loaded.
    depth = scale.sunk if source.dtype is DType.FLOAT32 else scale.sunk * share
    reals += np.where(below, np.float32(depth - scale.offset * share), np.float32(0.0))


def _weigh(array: Array, source: Source, scale: FamilyScale, *, rng: np.random.Generator) -> Array:
    """Outliers in single weights, in either order of their axes."""
    reals = array.astype(np.float32)
    fan_in = min(reals.shape[-2:])
    size = scale.weight_outlier * source.profile.std * math.sqrt(fan_in)
    add_outliers(reals, size, rng, off_edge=OFF_EDGE)
    turned = np.ascontiguousarray(reals.swapaxes(-1, -2))
    add_outliers(turned, size, rng, off_edge=OFF_EDGE)
    return np.ascontiguousarray(turned.swapaxes(-1, -2))
