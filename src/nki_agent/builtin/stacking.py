"""Finds passes over few rows, of which the partitions hold those of several turns of a loop.

Law: the same values. A tile of few rows leaves partitions idle, and with them the DMA engines that
move these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nki_agent.builtin.plan import RowsPlan, Stage
from nki_agent.builtin.tile_steps import AffineSelect, Copy, Iota, Kind, Load, Step, Store
from nki_agent.chip.spec import ChipSpec

STACKED_MIN = 2
"""Turns of the loop that have to fit."""


def stack_rows(stages: Sequence[Stage], *, chip: ChipSpec) -> list[Stage]:
    """The stages with such passes marked."""
    return [
        replace(s, is_stacked=True) if isinstance(s, RowsPlan) and _may_stack(s, chip) else s
        for s in stages
    ]


def _may_stack(plan: RowsPlan, chip: ChipSpec) -> bool:
    """Whether the rows of several turns of a loop fit the partitions at every shape set."""
    parts = (plan.passes, plan.cuts, plan.total, plan.after, plan.once, plan.sums, plan.kept)
    is_special = plan.is_flat or plan.is_step or plan.is_apart or any(parts)
    is_blocked = plan.col_block is not None or plan.period is not None
    if is_special or is_blocked or (plan.rows_each is not None) is not plan.has_middle:
        return False
    turns = plan.outer[: len(plan.outer) - plan.has_middle]
    if not turns or max(plan.rows) * STACKED_MIN > chip.partitions or max(turns[-1]) == 1:
        return False
    moves_alone = all(isinstance(step, Load | Store | Copy) for step in plan.levels[-1])
    return not moves_alone and not any(map(_needs_its_place, plan.steps))


def _needs_its_place(step: Step) -> bool:
    """Whether a step asks where its rows are."""
    match step:
        case Load():
            return step.lookup is not None
        case Store():
            return step.copies is not None or step.src.kind in (Kind.VECTOR, Kind.ONE)
        case Iota() | AffineSelect():
            return True
        case _:
            return False
