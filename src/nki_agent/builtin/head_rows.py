"""Which attention reads rows that hold all heads side by side, so that they are loaded once."""

from __future__ import annotations

from math import prod

from nki_agent.builtin.plan import AttentionPlan
from nki_agent.builtin.print_products import swap_axes
from nki_agent.builtin.tile_steps import Access, Size
from nki_agent.chip.spec import ChipSpec

ROWS_SHARE = 0.25
"""Part of SBUF for rows of all heads; those of the next batch are loaded beside them."""
BATCHES_HELD = 2
SHORT_RUNS = 4
"""Runs of one head that a descriptor of full rate has room for, from which on whole rows pay."""


def loads_rows(plan: AttentionPlan, chip: ChipSpec) -> bool:
    """Whether the innermost loop is over heads that lie side by side, in rows that fit SBUF."""
    if not plan.batch or max(plan.batch[-1]) == 1:
        return False
    if plan.loads_turned or plan.has_runs or plan.is_shared or plan.slope is not None:
        return False
    operands = (
        (plan.q, plan.queries, plan.depth, plan.dtype),
        (swap_axes(plan.k), plan.keys, plan.depth, plan.dtype),
        (plan.v, plan.keys, plan.value_depth, plan.value_dtype),
    )
    room = chip.sbuf_usable_partition_bytes * ROWS_SHARE
    held = [0] * len(plan.queries)
    for access, rows, width, dtype in operands:
        run_bytes = max(width) * dtype.itemsize
        if SHORT_RUNS * run_bytes > chip.dma_efficient_descriptor_bytes:
            return False
        if not _are_side_by_side(access, plan.batch[-1], width):
            return False
        for index, num_rows in enumerate(rows):
            tiles = -(-num_rows // chip.partitions)
            held[index] += tiles * plan.batch[-1][index] * width[index] * dtype.itemsize
    batches = [prod(sizes) for sizes in zip(*plan.batch[:-1], strict=True)] or [1] * len(held)
    return all(min(n, BATCHES_HELD) * size <= room for n, size in zip(batches, held, strict=True))


def _are_side_by_side(access: Access, heads: Size, width: Size) -> bool:
    *_, head, row, col = access.strides
    return all(
        c == 1 and r >= count * n and (count == 1 or h == n)
        for h, r, c, count, n in zip(head, row, col, heads, width, strict=True)
    )
