"""Recipes that a task file asks for by name: what kind of values a tensor has.

Law: values come from the trial's generator alone. Only the recipes that say so follow the trial's
strength (another scale and mean in each trial) and the families big and tiny; masks, codes,
indices, tables and weights keep their range, which is their meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.task.recipe import ENDS, Strength, put_ends

Array = NDArray[Any]
Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape, tuple[int, ...]], Array]

CODE_SCALES: Final = (0.005, 0.02)
"""Range of the scales of quantised codes."""
ROPE_BASE: Final = 10_000.0
ROPE_START_MAX: Final = 4096
"""The first position of a rotary table is drawn below this, so that no table is known."""
KEEP_SHARES: Final = (0.5, 0.9)
"""Range of the share of a mask that is kept; each row keeps at least one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One recipe: its draw, and what may change its scale."""

    name: str
    draw: Draw
    about: str
    num_bounds: int = 0
    is_scaled: bool = False
    """Whether the trial's strength and family scale it."""
    is_centred: bool = False
    """Whether the trial's strength moves its mean."""
    is_whole: bool = False
    """Whether its values are whole numbers, which an integer tensor needs."""

    def __str__(self) -> str:
        """As it is written in a task file."""
        bounds = ", ".join(("low", "high")[-self.num_bounds :]) if self.num_bounds else ""
        return f"{self.name}({bounds})" if bounds else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRecipe:
    """A recipe with its bounds as numbers."""

    name: str
    bounds: tuple[int, ...] = ()

    @property
    def kind(self) -> Kind:
        """The recipe."""
        return RECIPES[self.name]

    def draw(self, rng: np.random.Generator, shape: Shape, *, strength: Strength) -> Array:
        """Values in float32 or int64, of the strength where the recipe follows it."""
        kind = self.kind
        values = kind.draw(rng, shape, self.bounds)
        if kind.is_centred:
            values += np.float32(strength.shift)
        if kind.is_scaled:
            values *= np.float32(strength.factor)
        return values


def _normal(rng: np.random.Generator, shape: Shape, _bounds: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape, dtype=np.float32)


def _scaled_normal(scale: float, offset: float = 0.0) -> Draw:
    def draw(rng: np.random.Generator, shape: Shape, _bounds: tuple[int, ...]) -> Array:
        values = rng.standard_normal(shape, dtype=np.float32)
        values *= np.float32(scale)
        values += np.float32(offset)
        return values

    return draw


def _uniform(low: float, high: float) -> Draw:
    def draw(rng: np.random.Generator, shape: Shape, _bounds: tuple[int, ...]) -> Array:
        values = rng.random(shape, dtype=np.float32)
        values *= np.float32(high - low)
        values += np.float32(low)
        return values

    return draw


def _spread(low: float, high: float) -> Draw:
    """Powers of ten: among a few, one is small enough that an epsilon beside it shows."""

    def draw(rng: np.random.Generator, shape: Shape, _bounds: tuple[int, ...]) -> Array:
        return np.power(10.0, rng.uniform(low, high, shape)).astype(np.float32)

    return draw


def _weight(fan_in: Callable[[Shape], int]) -> Draw:
    def draw(rng: np.random.Generator, shape: Shape, _bounds: tuple[int, ...]) -> Array:
        values = rng.standard_normal(shape, dtype=np.float32)
        values /= np.float32(math.sqrt(fan_in(shape)))
        return values

    return draw


def _weight_codes(rng: np.random.Generator, shape: Shape, bounds: tuple[int, ...]) -> Array:
    """Values that become those of `weight` when a `scale` multiplies them."""
    values = _weight(_rows_in)(rng, shape, bounds)
    values /= np.float32(sum(CODE_SCALES) / 2)
    return values


def _rows_in(shape: Shape) -> int:
    """`[…, in, out]`, as in `x @ w`."""
    return shape[-2] if len(shape) > 1 else shape[0]


def _all_but_first(shape: Shape) -> int:
    """`[out, in, …]`, as in `linear(x, w)` and convolutions."""
    return math.prod(shape[1:]) or 1


def _transposed(shape: Shape) -> int:
    """`[in, out, …]` of a transposed convolution of stride two, each way."""
    return max(1, shape[0] * math.prod(shape[2:]) >> len(shape[2:]))


def _mask(rng: np.random.Generator, shape: Shape, _bounds: tuple[int, ...]) -> Array:
    kept = rng.random(shape) < rng.uniform(*KEEP_SHARES)
    rows = kept.reshape(-1, shape[-1])
    rows[np.arange(len(rows)), rng.integers(0, shape[-1], len(rows))] = True
    return kept.astype(np.int64)


def _index(rng: np.random.Generator, shape: Shape, bounds: tuple[int, ...]) -> Array:
    return put_ends(rng.integers(0, bounds[0], shape), 0, bounds[0] - 1, rng)


def _integers(rng: np.random.Generator, shape: Shape, bounds: tuple[int, ...]) -> Array:
    low, high = bounds
    return put_ends(rng.integers(low, high + 1, shape), low, high, rng)


def _unique(rng: np.random.Generator, shape: Shape, bounds: tuple[int, ...]) -> Array:
    count = math.prod(shape)
    if count > bounds[0]:
        raise TaskError(
            f"`unique({bounds[0]})` cannot fill the shape {list(shape)}",
            hint="its bound must be at least the number of elements",
        )
    if count < ENDS:
        return rng.choice(bounds[0], size=count, replace=False).reshape(shape)
    inner = 1 + rng.choice(bounds[0] - ENDS, size=count - ENDS, replace=False)
    return rng.permutation(np.concatenate([[0, bounds[0] - 1], inner])).reshape(shape)


def _segments(rng: np.random.Generator, shape: Shape, bounds: tuple[int, ...]) -> Array:
    """Ids that rise by one at random places, from 0."""
    steps = np.zeros(shape[-1], dtype=np.int64)
    places = 1 + rng.choice(shape[-1] - 1, size=min(bounds[0], shape[-1]) - 1, replace=False)
    steps[places] = 1
    return np.broadcast_to(np.cumsum(steps), shape).copy()


def _lengths(rng: np.random.Generator, shape: Shape, bounds: tuple[int, ...]) -> Array:
    """Two and two of them add up to high + 1, so that every trial asks for the same work."""
    lengths = rng.integers(1, bounds[0] + 1, math.prod(shape))
    half = lengths.size // 2
    lengths[: min(half, 1)] = 1  # and the whole length beside it
    lengths[lengths.size - half :] = bounds[0] + 1 - lengths[:half]
    return rng.permutation(lengths).reshape(shape)


def _rotary(table: Callable[[Array], Array]) -> Draw:
    """`[positions, pairs]`; the same generator gives a cosine and a sine that belong together."""

    def draw(rng: np.random.Generator, shape: Shape, _bounds: tuple[int, ...]) -> Array:
        start = rng.integers(0, ROPE_START_MAX)
        rates = ROPE_BASE ** (-np.arange(shape[-1]) / shape[-1])
        angles = (start + np.arange(shape[-2]))[:, None] * rates
        return np.broadcast_to(table(angles), shape).astype(np.float32)

    return draw


def _requantise(rng: np.random.Generator, shape: Shape, bounds: tuple[int, ...]) -> Array:
    """Scales that bring a sum of `bounds[0]` products of int8 codes back into int8's range."""
    middle = np.float32(40.0 / (73.0**2 * math.sqrt(bounds[0])))
    return (rng.random(shape, dtype=np.float32) + np.float32(0.5)) * middle


def _adam(rng: np.random.Generator, shape: Shape, _bounds: tuple[int, ...]) -> Array:
    """Learning rate, weight decay, and the two bias corrections, in the last axis."""
    low, high = np.array([0.01, 0.01, 1.0, 1.0]), np.array([0.1, 0.1, 4.0, 4.0])
    return rng.uniform(low, high, shape).astype(np.float32)


_KINDS: Final = (
    Kind(name="normal", draw=_normal, is_scaled=True, is_centred=True, about="both signs"),
    Kind(name="small", draw=_scaled_normal(0.1), is_scaled=True, about="a tenth of `normal`"),
    Kind(name="positive", draw=_uniform(0.25, 2.0), is_scaled=True, about="0.25 to 2"),
    Kind(name="variance", draw=_spread(-3.0, 0.3), about="0.001 to 2, even in its logarithm"),
    Kind(name="negative", draw=_uniform(-2.0, -0.25), is_scaled=True, about="-2 to -0.25"),
    Kind(name="unit", draw=_uniform(0.0, 1.0), about="0 to 1"),
    Kind(name="decay", draw=_uniform(0.9, 0.999), about="0.9 to 0.999: what is kept a step"),
    Kind(name="angle", draw=_uniform(-math.pi, math.pi), about="-π to π"),
    Kind(name="weight", draw=_weight(_rows_in), about="`[…, in, out]`: 1/√in"),
    Kind(name="weight_out_in", draw=_weight(_all_but_first), about="`[out, in, …]`: 1/√in"),
    Kind(name="weight_transposed", draw=_weight(_transposed), about="`[in, out, …]`, stride 2"),
    Kind(name="gain", draw=_scaled_normal(0.2, 1.0), about="around 1"),
    Kind(name="bias", draw=_scaled_normal(0.1), about="around 0"),
    Kind(name="state_decay", draw=_uniform(-1.5, -0.2), about="A of an SSM: -1.5 to -0.2"),
    Kind(name="learning_rate", draw=_uniform(0.2, 0.6), about="0.2 to 0.6: a step that shows"),
    Kind(name="adam", draw=_adam, about="learning rate, decay, two bias corrections"),
    Kind(
        name="scale",
        draw=_uniform(*CODE_SCALES),
        about="of quantised codes: 0.005 to 0.02",
    ),
    Kind(name="weight_codes", draw=_weight_codes, about="8-bit floats: `weight` over a `scale`"),
    Kind(name="requantise", draw=_requantise, num_bounds=1, about="brings int8 sums into int8"),
    Kind(name="cosine", draw=_rotary(np.cos), about="rotary table"),
    Kind(name="sine", draw=_rotary(np.sin), about="the rotary table beside `cosine`"),
    Kind(name="mask", draw=_mask, is_whole=True, about="0 or 1, at least one 1 a row"),
    Kind(
        name="index",
        draw=_index,
        is_whole=True,
        num_bounds=1,
        about="0 to high - 1, both among them",
    ),
    Kind(
        name="integers",
        draw=_integers,
        is_whole=True,
        num_bounds=2,
        about="low to high, both among them",
    ),
    Kind(
        name="unique",
        draw=_unique,
        is_whole=True,
        num_bounds=1,
        about="none twice, from 0 to high - 1, both among them",
    ),
    Kind(
        name="segments",
        draw=_segments,
        is_whole=True,
        num_bounds=1,
        about="rising from 0",
    ),
    Kind(
        name="lengths",
        draw=_lengths,
        is_whole=True,
        num_bounds=1,
        about="1 to high, in pairs that add up to high + 1",
    ),
)
RECIPES: Final[Mapping[str, Kind]] = MappingProxyType({kind.name: kind for kind in _KINDS})
TABLES: Final = frozenset({"cosine", "sine"})
"""Recipes that are drawn by one generator in a trial, whatever their tensors are called."""
