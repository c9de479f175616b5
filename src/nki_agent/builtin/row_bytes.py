"""Says how much of SBUF a pass over rows needs."""

from __future__ import annotations

from nki_agent.builtin.plan import RowsPlan
from nki_agent.builtin.tile_steps import Cut, Kind, step_writes
from nki_agent.isa.dtype import DType

BUFFERS = 2
"""Tiles of this many iterations fit, so that loads run ahead of compute."""
BY_ROW = frozenset({Kind.FULL, Kind.ROW})


def bytes_of(plan: RowsPlan, *, buffers: int) -> int:
    """Bytes of one partition if nothing is reused within an iteration."""
    width = max(plan.cols) if plan.col_block is None else min(plan.col_block, max(plan.cols))
    each = plan.rows_each or 1
    total = 0 if plan.total is None else 2 * width * DType.FLOAT32.itemsize
    for level, steps in enumerate(plan.levels):
        copies = buffers if level == len(plan.levels) - 1 else 1
        cuts = [step for step in steps if isinstance(step, Cut)]
        tiles = {tile for step in steps for tile in step_writes(step)}
        for tile in (tiles - {cut.dst for cut in cuts}) | {cut.src for cut in cuts}:
            wide = width if tile.cols is None else max(tile.cols)
            elems = (wide if tile.is_wide else 1) * (each if tile.kind in BY_ROW else 1)
            total += copies * tile.dtype.itemsize * elems
    return total
