"""Makes once what a pass would make again for each turn of a loop that only its stores depend on.

Law: the same stores. One transfer writes a tile to all its places, so that it is loaded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nki_agent.builtin.plan import RowsPlan, Stage
from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.tile_steps import (
    Access,
    AffineSelect,
    Copies,
    Iota,
    Kind,
    Load,
    Step,
    Store,
    step_reads,
    step_writes,
)


def store_copies(stages: Sequence[Stage]) -> list[Stage]:
    """The stages without such loops, where a flat tile is stored several times in their place."""
    return [_once(stage) if isinstance(stage, RowsPlan) else stage for stage in stages]


def _once(plan: RowsPlan) -> RowsPlan:
    if not plan.is_flat or plan.is_step or plan.total or plan.after or plan.cuts:
        return plan
    for axis, count in enumerate(plan.outer):
        if min(count) > 1 and all(_is_free(step, axis) for step in plan.steps):
            levels = (*plan.levels[:axis], plan.levels[axis] + plan.levels[axis + 1])
            levels += plan.levels[axis + 2 :]
            tiles = {t for s in plan.steps for t in (*step_reads(s), *step_writes(s))}
            moved = {t: replace(t, level=t.level - 1) for t in tiles if t.level > axis}
            return replace(
                plan,
                outer=(*plan.outer[:axis], *plan.outer[axis + 1 :]),
                levels=tuple(
                    tuple(_without(with_tiles(s, moved), axis, plan) for s in level)
                    for level in levels
                ),
            )
    return plan


def _is_free(step: Step, axis: int) -> bool:
    """Whether a step is the same at every turn, but for where it stores."""
    match step:
        case Load():
            return not any(step.access.strides[axis]) and step.lookup is None
        case Store():
            is_whole = step.src.kind is Kind.FULL and step.copies is None
            return is_whole and all(step.access.strides[axis])
        case Iota() | AffineSelect():
            return False
        case _:
            return True


def _without(step: Step, axis: int, plan: RowsPlan) -> Step:
    match step:
        case Load():
            return replace(step, access=_cut(step.access, axis))
        case Store():
            copies = Copies(count=plan.outer[axis], stride=step.access.strides[axis])
            return replace(step, access=_cut(step.access, axis), copies=copies)
        case _:
            return step


def _cut(access: Access, axis: int) -> Access:
    strides = (*access.strides[:axis], *access.strides[axis + 1 :])
    return replace(access, strides=strides)
