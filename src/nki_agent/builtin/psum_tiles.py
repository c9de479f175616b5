"""Keeps intermediate tiles in PSUM where that halves the time of a step with two operands.

Law: only where a tile lies changes. Two streams from SBUF share its port, one from each memory do
not; no instruction reads two operands from PSUM, and neither GpSimd nor DMA reaches it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.tile_steps import (
    Activate,
    Combine,
    Copy,
    Invert,
    Reduce,
    Scale,
    ScaleCombine,
    Step,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.isa.enums import Engine

_REACHING = (Activate, Combine, Copy, Invert, Reduce, Scale, ScaleCombine)
"""Steps of engines that read and write PSUM."""


def find_psum_tiles(steps: Sequence[Step], *, fixed: Collection[Tile]) -> list[Tile]:
    """The tiles that may lie in PSUM and are one of two operands there, in order."""
    found: list[Tile] = []
    for step in steps:
        pair = operands_of(step)
        if (
            not pair
            or not step_writes(step)[0].is_wide
            or any(tile.in_psum or tile in found for tile in pair)
        ):
            continue
        for tile in pair:
            if tile not in fixed and _may_move(tile, steps, found):
                found.append(tile)
                break
    return found


def in_psum(steps: Sequence[Step], tiles: Collection[Tile]) -> list[Step]:
    """The same steps with these tiles in PSUM."""
    new = {tile: replace(tile, in_psum=True) for tile in tiles}
    return [with_tiles(step, new) for step in steps]


def operands_of(step: Step) -> tuple[Tile, ...]:
    """The two tiles that a step walks through side by side; none for other steps."""
    match step:
        case Combine(engine=None):
            return () if step.op == "power" else (step.first, step.second)
        case ScaleCombine():
            return (step.data, step.other)
        case _:
            return ()


def _may_move(tile: Tile, steps: Sequence[Step], found: Sequence[Tile]) -> bool:
    makers = [step for step in steps if tile in step_writes(step)]
    readers = [step for step in steps if tile in step_reads(step)]
    if len(makers) != 1 or not all(_reaches(step) for step in (*makers, *readers)):
        return False
    pairs = [operands_of(step) for step in readers]
    shared = any(
        tile in pair and (set(pair) & set(found) or pair == (tile, tile)) for pair in pairs
    )
    # An instruction's scalar operands are columns in SBUF.
    wide = all(tile in pair or getattr(step, "data", None) == tile or isinstance(step, Copy)
               for step, pair in zip(readers, pairs, strict=True))  # fmt: skip
    return wide and not shared


def _reaches(step: Step) -> bool:
    is_moved = isinstance(step, Combine | Copy) and step.engine is Engine.GPSIMD
    is_power = isinstance(step, Combine) and step.op == "power"
    power = isinstance(step, Scale) and any(s.op == "power" for s in step.scalars)
    return isinstance(step, _REACHING) and not (is_moved or is_power or power)
