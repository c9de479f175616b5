"""Steps on one number for each row that need no other value of it: made for all rows at once.

Law: a column of a block of rows is a column of a tile that has all blocks side by side, so that one
instruction makes the columns of all blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.tile_steps import (
    Activate,
    Copy,
    Kind,
    Load,
    Scale,
    Step,
    Tile,
    step_reads,
    step_writes,
)


def take_columns(steps: Sequence[Step]) -> tuple[tuple[Step, ...], list[Step]]:
    """The steps that can be made for all blocks, and the others."""
    known: set[Tile] = set()
    taken = []
    for step in steps:
        if _is_of_column(step) and set(step_reads(step)) <= known:
            known |= set(step_writes(step))
            taken.append(step)
    return tuple(taken), [step for step in steps if step not in taken]


def _is_of_column(step: Step) -> bool:
    if any(tile.kind is not Kind.ROW for tile in step_writes(step)):
        return False
    match step:
        case Load():
            return step.lookup is None and not any(step.access.strides[-1])
        case Scale():
            return not any(isinstance(s.operand, Tile) for s in step.scalars)
        case Activate():
            return not isinstance(step.scale, Tile) and not isinstance(step.bias, Tile)
        case _:
            return isinstance(step, Copy)


def of_all_blocks(step: Step) -> Step:
    """The same step on a tile with the columns of all blocks."""
    tiles = {t for t in (*step_reads(step), *step_writes(step)) if t.kind is Kind.ROW}
    return with_tiles(step, {tile: replace(tile, kind=Kind.VECTOR, level=0) for tile in tiles})


def column_tiles(steps: Sequence[Step]) -> list[Tile]:
    """What the steps make, as blocks know it."""
    return list(dict.fromkeys(tile for step in steps for tile in step_writes(step)))
