"""Where keys, values and scores of an attention come from beside its plain operands, as data."""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.tile_steps import Access, Size


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
