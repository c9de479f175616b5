"""Keys and values in two tensors, as data."""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.tile_steps import Access, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """Where the keys and values lie that follow those of a cache."""

    k: Access
    v: Access
    first: Size
    """Keys of the cache."""
