"""Puts rows that all tiles share into PSUM, where the pacer wants to read them.

Law: a row is loaded and made in SBUF as before, and copied once; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.balance import fresh
from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.tile_steps import Copy, Kind, Step, step_reads, step_writes


def keep_vectors(levels: Sequence[Sequence[Step]], names: Mapping[str, int]) -> list[list[Step]]:
    """The steps by loop, with copies of what the innermost ones read of PSUM but don't make."""
    *outer, inner = (list(steps) for steps in levels)
    taken = dict(names)
    made = {tile for step in inner for tile in step_writes(step)}
    read = dict.fromkeys(tile for step in inner for tile in step_reads(step) if tile.in_psum)
    for tile in read:
        if tile in made or tile.kind is not Kind.VECTOR:
            continue
        plain = replace(tile, in_psum=False)
        loaded = replace(plain, name=fresh(taken, f"{tile.name}_loaded"))
        outer = [[with_tiles(step, {plain: loaded}) for step in steps] for steps in outer]
        outer[tile.level].append(Copy(dst=tile, src=loaded))
    return [*outer, inner]
