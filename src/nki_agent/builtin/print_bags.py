"""Prints weighted sums of rows that indices name."""

from __future__ import annotations

from nki_agent.builtin.plan import BagPlan
from nki_agent.builtin.print_picks import Names
from nki_agent.builtin.text import Scope, Source


class BagPrinter:
    """Prints one BagPlan into a function body."""

    def __init__(self, plan: BagPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.names = Names(source, scope)

    def print(self) -> None:
        """The whole stage."""
        plan, add, names = self.plan, self.source.add, self.names
        names.size("num_bags", plan.index.rows, plan.index)
        names.size("bag_size", plan.index.cols, plan.index, from_last=True)
        names.size("num_rows", plan.table.rows, plan.table)
        names.size("num_cols", plan.table.cols, plan.table, from_last=True)
        index = names.view(plan.index, "num_bags", "bag_size")
        weight = names.view(plan.weight, "num_bags", "bag_size")
        table = names.view(plan.table, "num_rows", "num_cols")
        out = names.view(plan.out, "num_bags", "num_cols")
        with self.source.block("for r0 in range(0, num_bags, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_bags - r0)")
            names.tile("places", "(rows, bag_size)", "int32")
            add(f"nisa.dma_copy(dst=places, src={index}[r0 : r0 + rows, :])")
            names.tile("weights", "(rows, bag_size)", "float32")
            add(f"nisa.dma_copy(dst=weights, src={weight}[r0 : r0 + rows, :])")
            names.tile("sums", "(rows, num_cols)", "float32")
            with self.source.block("for e in range(bag_size):"):
                names.tile("tile", "(rows, num_cols)", plan.table.dtype.value)
                add(f"nisa.dma_copy(dst=tile, src={table}.vector_select(0, places[:, e : e + 1]))")
                add("share = weights[:, e : e + 1]")
                with self.source.block("if e == 0:"):
                    add("nisa.activation(dst=sums, op=nl.copy, data=tile, scale=share)")
                with self.source.block("else:"):
                    add(
                        "nisa.scalar_tensor_tensor(dst=sums, data=tile, op0=nl.multiply,"
                        " operand0=share, op1=nl.add, operand1=sums)"
                    )
            add(f"nisa.dma_copy(dst={out}[r0 : r0 + rows, :], src=sums)")
