"""Columns of a pass over rows that no other loop changes: made once, before all loops.

Law: values and their order stay. A load of one number for each partition takes a DMA engine as long
as half a kilobyte would, so that it must not come again with each tile.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

from nki_agent.builtin.plan import RowsPlan
from nki_agent.builtin.tile_steps import (
    Access,
    Kind,
    Load,
    Step,
    Store,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.chip.spec import ChipSpec

ROW_TILES_MAX = 16
"""Tiles of rows whose columns stay in SBUF."""


def make_once(plan: RowsPlan, chip: ChipSpec) -> RowsPlan:
    """The same pass, with what depends on the row alone before its loops."""
    if not _has_plain_loops(plan) or max(plan.rows) > ROW_TILES_MAX * chip.partitions:
        return plan
    inner = plan.levels[-1]
    once = _rowwise(inner, known={t for s in plan.levels[0] for t in step_writes(s)})
    left = tuple(step for step in inner if step not in once)
    is_free = not _touched(once) & _stored(left) and not _stored(once) & _touched(left)
    again = {tile for step in left for tile in step_writes(step)}
    is_free = is_free and not again & {tile for step in once for tile in step_writes(step)}
    if not is_free or not any(isinstance(step, Load) for step in once):
        return plan
    return replace(plan, levels=(*plan.levels[:-1], left), once=tuple(once))


def _has_plain_loops(plan: RowsPlan) -> bool:
    """Whether each tile is one of rows, and comes again in some other loop."""
    is_other = plan.is_flat or plan.is_step or plan.has_middle or plan.passes or plan.cuts
    if is_other or plan.rows_each is not None or plan.period is not None or plan.total is not None:
        return False
    if plan.after or plan.kept:
        return False
    turns = [prod(sizes) for sizes in zip(*plan.outer, strict=True)] or [1]
    return max(turns) > 1 or (plan.col_block is not None and max(plan.cols) > plan.col_block)


def _rowwise(steps: Collection[Step], known: set[Tile]) -> list[Step]:
    """Steps that have one value for each row, which no loop but that over rows changes."""
    found = []
    for step in steps:
        if isinstance(step, Load | Store) and not _follows_rows(step.access):
            continue
        tiles = (step.src,) if isinstance(step, Store) else step_writes(step)
        is_column = bool(tiles) and all(tile.kind is Kind.ROW for tile in tiles)
        if is_column and known.issuperset(step_reads(step)):
            found.append(step)
            known = known.union(step_writes(step))
    return found


def _follows_rows(access: Access) -> bool:
    *outer, _, cols = access.strides
    return not any(any(size) for size in (*outer, cols))


def _stored(steps: Collection[Step]) -> set[str]:
    return {step.access.tensor for step in steps if isinstance(step, Store)}


def _touched(steps: Collection[Step]) -> set[str]:
    return {step.access.tensor for step in steps if isinstance(step, Load | Store)}
