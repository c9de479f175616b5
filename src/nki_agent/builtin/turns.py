"""Puts the steps of a loop's turn in an order in which engines wait least for each other.

Law: the order of any two steps of which one writes what the other touches stays; engines work
through their steps in order. The estimates are for choosing; the cost model has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.balance import Estimate
from nki_agent.builtin.resident_plan import ResidentPlan
from nki_agent.builtin.tile_steps import Step, Tile, step_reads, step_writes
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine

STEPS_MAX = 200
"""Longer turns stay as they are: each step looks at all others."""


def order_turn(plan: ResidentPlan, chip: ChipSpec) -> ResidentPlan:
    """Products in the order of what follows from them, and steps in that in which they can begin.

    Steps of all loops that run together are ordered as one.
    """
    each = -(-max(plan.features) // chip.partitions)
    cols = each * min(max(plan.sequences), chip.partitions)
    estimate = Estimate(chip, cols, len(plan.features), is_packed=True)
    left = time_left([step for steps in plan.levels[1:] for step in steps], estimate)
    products = tuple(
        replace(p, parts=tuple(sorted(p.parts, key=lambda part: -left.get(part[1], 0.0))))
        for p in plan.products
    )
    plan = replace(plan, products=products)
    first, *rest = plan.levels
    arrivals = _arrivals(plan, each, chip)
    return replace(plan, levels=(first, *(in_turns(s, estimate, arrivals) for s in rest)))


def _arrivals(plan: ResidentPlan, each: int, chip: ChipSpec) -> dict[Tile, float]:
    """When each part of the products of a level is there, from the start of the level."""
    found: dict[Tile, float] = {}
    for level in range(len(plan.levels)):
        now = 0.0
        for product in plan.products:
            passes = chip.matmul_fp32_passes if product.dtype is DType.FLOAT32 else 1
            cycles = passes * max(*plan.sequences, chip.min_instruction_cycles)
            for _, tile in product.parts if product.level == level else ():
                now += each * each * cycles / chip.tensor_clock_ghz
                found[tile] = now
    return found


def in_turns(
    steps: Sequence[Step], estimate: Estimate, arrivals: Mapping[Tile, float]
) -> tuple[Step, ...]:
    """The steps in the order in which they can begin; `arrivals` says when products are there."""
    if len(steps) > STEPS_MAX:
        return tuple(steps)
    needs = [_needs(steps, index) for index in range(len(steps))]
    given = [max((arrivals.get(t, 0.0) for t in step_reads(step)), default=0.0) for step in steps]
    free: dict[Engine, float] = {}
    done: dict[int, float] = {}
    waiting = list(range(len(steps)))
    order: list[Step] = []
    while waiting:
        ready = [i for i in waiting if needs[i] <= done.keys()]
        starts = {
            i: max(
                free.get(estimate.engine(steps[i]), 0.0),
                given[i],
                max((done[n] for n in needs[i]), default=0.0),
            )
            for i in ready
        }
        chosen = min(ready, key=lambda i: (starts[i], i))
        step = steps[chosen]
        free[estimate.engine(step)] = starts[chosen] + estimate.interval_ns(step)
        done[chosen] = starts[chosen] + estimate.step_ns(step)
        waiting.remove(chosen)
        order.append(step)
    return tuple(order)


def _needs(steps: Sequence[Step], index: int) -> set[int]:
    """The steps in front of one that must stay there."""
    reads, writes = set(step_reads(steps[index])), set(step_writes(steps[index]))
    return {
        i
        for i in range(index)
        if set(step_writes(steps[i])) & (reads | writes) or set(step_reads(steps[i])) & writes
    }


def time_left(steps: Sequence[Step], estimate: Estimate) -> dict[Tile, float]:
    """From when each tile is read to the end of all that follows from it."""
    left = [estimate.step_ns(step) for step in steps]
    found: dict[Tile, float] = {}
    for index in range(len(steps) - 1, -1, -1):
        for before in _needs(steps, index):
            left[before] = max(left[before], estimate.step_ns(steps[before]) + left[index])
        for tile in step_reads(steps[index]):
            found[tile] = max(found.get(tile, 0.0), left[index])
    return found
