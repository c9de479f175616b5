"""Finds products that are their own mirror: a matrix and itself turned, or one symmetric matrix.

Law: what follows such a product treats an element and its mirror alike, so that one half is made
and the other is its transpose. A symmetric operand on the left need not be turned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.plan import MatmulPlan, Stage
from nki_agent.builtin.print_products import is_x_ready, swap_axes
from nki_agent.builtin.stage_tensors import stage_writes
from nki_agent.builtin.tile_steps import (
    Access,
    AffineSelect,
    Cut,
    Iota,
    Kind,
    Load,
    Step,
    Store,
    step_reads,
    step_writes,
)

ALIKE = frozenset({Kind.FULL, Kind.ONE})
"""Kinds of tiles that an element and its mirror have in common with another."""


def find_mirrors(stages: Sequence[Stage]) -> list[Stage]:
    """The stages, where such products make one half."""
    symmetric: dict[str, Access] = {}
    found = []
    for stage in stages:
        made = stage
        if isinstance(stage, MatmulPlan):
            made = _mirrored(_unturned(stage, symmetric), symmetric)
        for tensor in stage_writes(stage):
            symmetric.pop(tensor, None)
        if isinstance(made, MatmulPlan) and made.is_mirrored:
            stores = [s for s in made.levels[-1] if isinstance(s, Store)]
            symmetric |= {s.access.tensor: s.access for s in stores}
        found.append(made)
    return found


def _unturned(plan: MatmulPlan, symmetric: Mapping[str, Access]) -> MatmulPlan:
    """The product with a symmetric left operand as it lies."""
    is_known = symmetric.get(plan.x.tensor) == plan.x and not is_x_ready(plan)
    if not is_known or plan.twin or plan.tail or plan.last_column or plan.is_step:
        return plan
    return replace(plan, x=swap_axes(plan.x))


def _mirrored(plan: MatmulPlan, symmetric: Mapping[str, Access]) -> MatmulPlan:
    is_plain = not (plan.twin or plan.tail or plan.depth_group or plan.has_double_rows)
    if not is_plain or plan.is_step or plan.w_banks > 1 or plan.m != plan.n:
        return plan
    x, w = plan.x, plan.w
    is_same = w == swap_axes(x) or (w == x and symmetric.get(x.tensor) in (x, swap_axes(x)))
    steps = plan.levels[-1]
    if not is_same or not all(_is_alike(step, symmetric) for step in steps):
        return plan
    if any(
        tile.kind is not Kind.ONE
        for level in plan.levels[:-1]
        for s in level
        for tile in step_writes(s)
    ):
        return plan
    return replace(plan, is_mirrored=True)


def _is_alike(step: Step, symmetric: Mapping[str, Access]) -> bool:
    """Whether a step does the same to an element and its mirror."""
    if isinstance(step, Iota | AffineSelect | Cut):
        return False
    if isinstance(step, Load) and symmetric.get(step.access.tensor) != step.access:
        return False
    if isinstance(step, Store) and step.src.in_psum:
        return False
    return all(tile.kind in ALIKE for tile in (*step_reads(step), *step_writes(step)))
