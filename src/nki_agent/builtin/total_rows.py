"""Plans a pass over rows that ends in a total: states of a scan, read and added up.

Law: what is added up never leaves SBUF. Either it is the innermost loop, and rows of the result lie
on the partitions; or it lies there itself, as often as they hold it, and a product adds it up. What
takes the least time is planned.
"""

from __future__ import annotations

import math
from dataclasses import replace

from nki_agent.builtin.align import group_size
from nki_agent.builtin.balance import Estimate
from nki_agent.builtin.choices import Choices
from nki_agent.builtin.decayed_sums import find_decayed_sum, is_float32, plan_decayed_sum
from nki_agent.builtin.graph import Op
from nki_agent.builtin.lower import Lowering
from nki_agent.builtin.plan import RowsPlan, Total
from nki_agent.builtin.resident_plan import DecayedSumPlan
from nki_agent.builtin.row_bytes import bytes_of
from nki_agent.builtin.row_space import Space
from nki_agent.builtin.rows import RowsPlanner
from nki_agent.builtin.tile_steps import Load, step_writes
from nki_agent.builtin.totals import add_up, is_by_products, total_walks


class TotalPlanner(RowsPlanner):
    """Plans one group of nodes of which the last adds up over a loop."""

    is_over_rows = False

    def plan_sum(self) -> DecayedSumPlan | None:
        """The pass as a sum of a decaying state that products make; None if it is another."""
        assert self.fold is not None
        found = find_decayed_sum(self.graph, self.group.nodes, self.fold)
        if found is None or self.outputs or not is_float32(self.graph, found):
            return None
        space = self._space()
        accesses = {
            source: self._access(space, self.buffers[base].name, self.walks(source, axes))
            for source, axes in self.operands.items()
            if (base := self.graph.base(source).id) in self.buffers
        }
        sizes = [group_size(group, space.sizes) for group in space.groups]
        walks = total_walks(self.captured, self.alignments, self.fold, self.buffers)
        out = self._access(space, self.buffers[self.fold].name, walks)
        return plan_decayed_sum(found, accesses, sizes=sizes, out=out, chip=self.chip)

    def plan(self, choices: Choices) -> RowsPlan:
        """Plan the stage.

        Raises:
            UnsupportedError: its rows do not fit SBUF.
        """
        plan = super().plan(choices)
        other = self._plan_over_rows()
        if other is None:
            return plan
        lanes = self.chip.partitions
        turns = max(plan.outer[-1]) * -(-max(plan.rows) // lanes)
        each = lanes // max(other.rows)
        fewer = -(-max(other.outer[-1]) // each)
        return other if self._time_ns(other, fewer) < self._time_ns(plan, turns) else plan

    def _plan_over_rows(self) -> RowsPlan | None:
        """The plan with what is added up on the partitions; None where it does not fit them."""
        space = self._space()
        *outside, added, rows, cols = space.groups
        depth = group_size(added, space.sizes)
        by_position = any(self.graph.base(s).op is Op.IOTA for s in self.operands)
        if max(depth) > self.chip.partitions or min(depth) == 1 or by_position or self.outputs:
            return None
        turned = replace(space, groups=(*outside, rows, added, cols))
        if self._find_row_parts(turned):
            return None
        self.is_over_rows = True
        plan = self.lower_to(turned, None)
        self.is_over_rows = False
        fits = bytes_of(plan, buffers=1) <= self.chip.sbuf_usable_partition_bytes
        is_sum = plan.total is not None and plan.total.is_by_products
        return plan if fits and is_sum else None

    def _total(self, lowering: Lowering, space: Space) -> Total | None:
        assert self.fold is not None
        node = self.graph[self.fold]
        stored = self.buffers[node.id]
        source = lowering.settle(self.graph.base(node.inputs[0]).id)
        cols = max(group_size(space.groups[-1], space.sizes))
        walks = total_walks(self.captured, self.alignments, self.fold, self.buffers)
        return Total(
            tile=add_up(lowering, source, node.function, cols),
            target=self._access(space, stored.name, walks),
            dtype=stored.dtype,
            is_by_products=is_by_products(source, node.function, cols),
            is_over_rows=self.is_over_rows,
        )

    def _time_ns(self, plan: RowsPlan, turns: int) -> float:
        """Time of all turns, each as long as its busiest engine or its loads."""
        cols = max(plan.cols)
        steps = plan.levels[-1]
        estimate = Estimate(self.chip, cols, len(plan.cols))
        moved = sum(
            cols * self.chip.partitions * tile.dtype.itemsize
            for step in steps
            if isinstance(step, Load)
            for tile in step_writes(step)
            if tile.is_wide
        )
        busiest = max((moved / self.chip.dma_bytes_per_ns, *estimate.loads(steps).values()))
        return turns * math.prod(max(size) for size in plan.outer[:-1]) * busiest
