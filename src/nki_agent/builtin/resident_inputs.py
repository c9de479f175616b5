"""What a loop's steps add to their inputs that no step changes: it is added before the steps.

Law: i + (p + c) is (i + c) + p. Where a step adds a column that all steps share to a product, and
the sum to an input that nothing else reads, the column is added to the inputs of many steps at
once, while they are turned.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nki_agent.builtin.resident_plan import ResidentPlan, StepInput
from nki_agent.builtin.tile_steps import Combine, Step, Tile, step_reads
from nki_agent.isa.dtype import DType


def add_columns_early(plan: ResidentPlan) -> ResidentPlan:
    """The plan with columns added to inputs where steps would add them to products."""
    added: dict[Tile, Tile] = {}
    for level, steps in enumerate(plan.levels):
        for step in steps:
            found = _early(plan, step, taken=added)
            if found is None:
                continue
            own, later, (part, column, product) = found
            added[part] = column
            left = [s for s in plan.levels[level] if s != own]
            left[left.index(later)] = replace(later, first=part, second=product)
            levels = (*plan.levels[:level], tuple(left), *plan.levels[level + 1 :])
            plan = replace(plan, levels=levels)
    groups = tuple(replace(group, added=_columns_of(group, added)) for group in plan.inputs)
    return replace(plan, inputs=groups)


def _early(
    plan: ResidentPlan, step: Step, *, taken: Collection[Tile]
) -> tuple[Combine, Combine, tuple[Tile, Tile, Tile]] | None:
    """Two sums of a level, and the input, column and product that they add up."""
    columns = {column.tile for column in plan.columns}
    products = {tile for product in plan.products for _, tile in product.parts}
    kept = {r.tile for r in plan.results} | {p.x for p in plan.products}
    own = _sum(step)
    if own is None or own.dst in kept:
        return None
    product, column = {own.first, own.second} & products, {own.first, own.second} & columns
    readers = _readers(plan, own.dst)
    later = _sum(readers[0]) if len(readers) == 1 else None
    if not (product and column) or later is None:
        return None
    (part,) = {later.first, later.second} - {own.dst}
    inputs = {tile for group in plan.inputs for tile in group.parts}
    is_exact = part.dtype is own.dst.dtype is DType.FLOAT32
    if part not in inputs - kept - set(taken) or not is_exact or _readers(plan, part) != [later]:
        return None
    is_one_level = any(own in steps and later in steps for steps in plan.levels)
    return (own, later, (part, column.pop(), product.pop())) if is_one_level else None


def _columns_of(group: StepInput, added: dict[Tile, Tile]) -> tuple[tuple[int, Tile], ...]:
    numbered = enumerate(group.parts)
    return tuple((number, added[tile]) for number, tile in numbered if tile in added)


def _sum(step: Step) -> Combine | None:
    """A step that adds two different tiles."""
    is_sum = isinstance(step, Combine) and step.op == "add" and step.first != step.second
    return step if is_sum and isinstance(step, Combine) else None


def _readers(plan: ResidentPlan, tile: Tile) -> list[Step]:
    return [step for steps in plan.levels for step in steps if tile in step_reads(step)]
