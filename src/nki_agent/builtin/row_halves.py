"""Largest and smallest values of 16-bit rows, found by halves.

Law: the same values. A reduction takes one element a cycle in every format, while the larger of two
16-bit tiles is found at twice that rate: a row is folded in halves until little is left to reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nki_agent.builtin.balance import Estimate
from nki_agent.builtin.plan import RowsPlan, Stage
from nki_agent.builtin.shortening import SHORT
from nki_agent.builtin.tile_steps import Kind, Load, Reduce, Step, Store
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.enums import Engine

COLS_MIN: Final = 1024
"""Columns from which on it is faster, the instructions that it adds counted."""
FOLDED: Final = frozenset({"maximum", "minimum"})
FOLD_ROWS: Final = '''def fold_rows(dst, op, data):
    """A reduction of 16-bit rows by halves, of which two are compared at twice the rate."""
    rows, cols = data.shape
    while cols > 512:
        # Of an odd number of columns the one in the middle is in both halves.
        half = (cols + 1) // 2
        halves = nl.ndarray((rows, half), dtype=data.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=halves, data1=data[:, :half], data2=data[:, cols - half :], op=op)
        data, cols = halves, half
    nisa.tensor_reduce(dst=dst, op=op, data=data, axis=1)
'''


def fold_rows(stages: Sequence[Stage], *, chip: ChipSpec) -> list[Stage]:
    """The stages with such reductions by halves."""
    if chip.vector_half_fast_factor <= 1:
        return list(stages)
    return [
        _with_halves(s) if isinstance(s, RowsPlan) and _waits_for_vector(s, chip) else s
        for s in stages
    ]


def has_halves(stage: Stage) -> bool:
    """Whether a stage calls the helper."""
    return isinstance(stage, RowsPlan) and any(
        isinstance(step, Reduce) and step.by_halves for step in stage.steps
    )


def _width(plan: RowsPlan) -> int:
    return min(plan.col_block or max(plan.cols), max(plan.cols))


def _waits_for_vector(plan: RowsPlan, chip: ChipSpec) -> bool:
    """Whether the Vector Engine takes longer for a tile of long rows than DMA."""
    width = _width(plan)
    if plan.rows_each is not None or plan.is_flat or width < COLS_MIN:
        return False
    steps = plan.levels[-1]
    moved = [s.dst if isinstance(s, Load) else s.src for s in steps if isinstance(s, Load | Store)]
    row_bytes = sum(tile.dtype.itemsize for tile in moved if tile.is_wide) * width
    busy = Estimate(chip, width, len(plan.cols)).loads(steps).get(Engine.VECTOR, 0.0)
    return busy > row_bytes * chip.partitions / chip.dma_bytes_per_ns


def _with_halves(plan: RowsPlan) -> RowsPlan:
    return replace(plan, levels=tuple(tuple(map(_halved, level)) for level in plan.levels))


def _halved(step: Step) -> Step:
    match step:
        case Reduce(negate=False) if step.op in FOLDED:
            is_short = step.data.dtype in SHORT and step.data.kind is Kind.FULL
            is_whole = step.data.cols is None and not step.data.in_psum
            return replace(step, by_halves=is_short and is_whole)
        case _:
            return step
