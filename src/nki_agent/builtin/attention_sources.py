"""What an attention reads and does beside its plain operands, as data."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from nki_agent.builtin.tile_steps import Access, Number, Size, Step, Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Which pages hold the keys and values of a sequence, one after the other."""

    index: str
    """The tensor with the numbers of all pages, sequence after sequence."""
    length: Size
    """Keys of a page."""
    key_row: Size
    """Elements of a row with the keys of all heads."""
    value_row: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """Where the keys and values lie that follow those of a cache."""

    k: Access
    v: Access
    first: Size
    """Keys of the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreDepth:
    """Queries and keys of a second product, which is added to the first."""

    q: Access
    k: Access
    depth: Size
    q_each: int
    """Queries that share a partition while they are loaded to be turned."""
    k_each: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """Scores are `most` times tanh of the product times all factors."""

    factors: tuple[Number, ...]
    most: Number

    @property
    def factor(self) -> Number:
        """All factors in one."""
        return tuple(prod(numbers) for numbers in zip(*self.factors, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """What the Tensor Engine adds to products: far below zero for keys that are hidden."""

    tile: Tile
    steps: tuple[Step, ...]
    """What makes it for a block of queries and a bank of keys; none where it is there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """What scores rise by from key to key: `step` times the number in a tile."""

    tile: Tile
    step: int
    factor: Number
    """What products are multiplied by before."""
