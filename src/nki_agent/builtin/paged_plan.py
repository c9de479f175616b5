"""Keys and values that lie in pages, as data."""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.tile_steps import Size


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
