"""Prints a product of short rows, whose results are stored as many to a partition as were loaded.

Law: a tile of the result takes every `each`-th row of those that are loaded together, so that the
tiles of one load lie side by side in each partition as their rows do in memory: one long run.
"""

from __future__ import annotations

from nki_agent.builtin.plan import MatmulPlan, Plan
from nki_agent.builtin.print_matmul import MatmulPrinter
from nki_agent.builtin.print_products import is_x_ready
from nki_agent.builtin.print_steps import StepPrinter, tile_of
from nki_agent.builtin.regions import Window
from nki_agent.builtin.text import PartScope, Source
from nki_agent.builtin.tile_steps import Kind, Load, Store

ROWS_EACH = '''def rows_each(num_rows, most):
    """Neighbouring rows that share a partition in `load_short_rows`."""
    each = max(1, min(most, num_rows // PARTITIONS))
    while num_rows % each:
        each -= 1
    return each
'''


def has_short_results(plan: MatmulPlan) -> bool:
    """Whether rows of the result are short, follow each other, and need nothing but themselves."""
    steps = plan.levels[-1]
    stores = [step for step in steps if isinstance(step, Store)]
    if not plan.keep_w or plan.x_each == 1 or is_x_ready(plan) or plan.is_step or plan.tail:
        return False
    if plan.is_mirrored or plan.last_column is not None:
        return False
    if len(stores) != 1 or any(isinstance(step, Load) for step in steps) or plan.is_split:
        return False
    tile, (*_, row, col) = stores[0].src, stores[0].access.strides
    return plan.has_short_rows and tile.kind is Kind.FULL and row == plan.n and set(col) == {1}


def short_product_helpers(plan: Plan) -> list[str]:
    """The helper function that such stages of a plan call."""
    products = [stage for stage in plan.stages if isinstance(stage, MatmulPlan)]
    return [ROWS_EACH] * any(has_short_results(product) for product in products)


class ShortProductPrinter(MatmulPrinter):
    """Prints one such MatmulPlan into a function body."""

    def _define_multiply(self) -> None:
        source = Source(depth=1)
        scope = PartScope({}, {"num_cols": self.plan.n, "depth": self.plan.k})
        printer = StepPrinter(source, scope, row_level=self.last, cols="num_cols")
        steps = self.plan.levels[self.last]
        store = next(step for step in steps if isinstance(step, Store))
        source.add('"""Rows that were loaded together against all columns; they leave together."""')
        source.add("rows, num_cols = x_turned.shape[2] // each, w_kept.shape[2]")
        name, dtype = f"{store.src.name}s", f"nl.{store.src.dtype.value}"
        source.add(f"{name} = nl.ndarray((rows, each, num_cols), dtype={dtype}, buffer=nl.sbuf)")
        with source.block("for e in range(each):"):
            self._multiply_rows(source, stationary="{x}[:size, k, e::each]", cols="num_cols")
            for step in steps:
                if step == store:
                    continue
                if tile_of(step) == store.src:
                    printer.take(store.src)
                    source.add(f"{store.src.name} = {name}[:, e, :]")
                printer.print(step, self.last)
        part = self.parts[store.access]
        source.add(f"nisa.dma_copy(dst={part}.reshape_dim(0, (rows, each)), src={name})")
        self._add_multiply(source, scope, "each")

    def _kept(self) -> None:
        if self.plan.is_w_first:
            self._load_w_once("")
        add, block = self.source.add, self.source.block
        add(f"row_group = {self.plan.row_group}  # rows of {self.plan.x.tensor} in one load")
        with block("for g0 in range(0, num_rows, row_group):"):
            add("group = min(row_group, num_rows - g0)")
            self._load_x("group", "g0")
            if not self.plan.is_w_first:
                self._load_w_once("g0")
            add(f"each = rows_each(group, {self.plan.x_each})")
            with block("for r0 in range(g0, g0 + group, PARTITIONS * each):"):
                add("count = min(PARTITIONS * each, g0 + group - r0)")
                self._make_ready("r0 - g0 : r0 - g0 + count", "each")

    def _rows_of_tile(self) -> Window:
        return Window(start="r0", count="count")
