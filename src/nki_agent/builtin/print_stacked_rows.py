"""Prints a pass over few rows, of which the partitions hold those of several turns of a loop.

Law: the same tiles, one below the other. A tile of few rows leaves partitions idle, and with them
the DMA engines that move these.
"""

from __future__ import annotations

from nki_agent.builtin.plan import RowsPlan
from nki_agent.builtin.print_rows import RowsPrinter
from nki_agent.builtin.regions import Axis, Regions, access_pattern, times
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access, Kind, Load, Step, Tile


class StackedRowsPrinter(RowsPrinter):
    """Prints one such RowsPlan into a function body."""

    def __init__(
        self, plan: RowsPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes nothing: it has no phases."""
        super().__init__(plan, source, scope, helpers=helpers, prefix=prefix)
        self.turn_level = len(plan.outer) - plan.has_middle - 1
        self.turn = self.outer[self.turn_level]

    def _sizes(self) -> None:
        super()._sizes()
        self.source.note("A tile holds the rows of so many turns of the loop over them.")
        self.source.add("stacked = PARTITIONS // num_rows")

    def _make_views(self) -> None:
        """Tensors are read along their strides: a tile has two of their axes on the partitions."""
        sizes = [(f"num_{n}", s) for n, s in zip(self.outer, self.plan.outer, strict=True)]
        sizes += [("num_rows", self.plan.rows), ("num_cols", self.plan.cols)]
        axes = [Axis(name=name, size=size) for name, size in sizes]
        self.regions = Regions(self.source, self.scope, axes)

    def _level(self, level: int) -> None:
        if level != self.turn_level:
            super()._level(level)
            return
        self._steps(level)
        add, turn = self.source.add, self.turn
        with self.source.block(f"for {turn}0 in range(0, num_{turn}, stacked):"):
            add(f"count = min(stacked, num_{turn} - {turn}0)")
            add("rows = count * num_rows")
            if level + 1 < self.row_level:
                self._steps(level + 1)
            if not self.plan.has_middle:
                self._steps(self.row_level)
                return
            name, most = self.outer[-1], self.plan.rows_each
            with self.source.block(f"for {name}0 in range(0, num_{name}, {most}):"):
                add(f"each = min({most}, num_{name} - {name}0)")
                self._steps(self.row_level)

    def _is_moved(self) -> bool:
        """It has no pass that only moves."""
        return False

    def _step(self, step: Step, level: int) -> None:
        if not isinstance(step, Load) or step.dst.level >= self.row_level:
            super()._step(step, level)
            return
        self.steps.allocate(step.dst)
        text = self._region(step.access, step.dst, is_store=False)
        rows = "rows" if step.dst.level > self.turn_level else "stacked * num_rows"
        self.source.add(f"nisa.dma_copy(dst={step.dst.name}[:{rows}], src={text})")

    def _region(self, access: Access, tile: Tile, *, is_store: bool) -> str:
        """For each turn that a tile holds, its rows."""
        del is_store
        plan, turn_level = self.plan, self.turn_level
        steps = self.regions.paces(access.strides)
        starts = [*self.outer[:turn_level], f"{self.turn}0"]
        starts += [f"{self.outer[-1]}0"] * plan.has_middle
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        terms += [times(at, s) for at, s in zip(starts, steps, strict=False) if s != "0"]
        width = "num_cols" if tile.cols is None else self.scope.size(tile.cols)
        last = [steps[-1], width] if tile.is_wide else ["1", "1"]
        count = "count" if tile.level > turn_level else "stacked"
        pattern = [[steps[turn_level], count], [steps[-2], "num_rows"]]
        if plan.has_middle and tile.kind in (Kind.FULL, Kind.ROW):
            pattern.append([steps[-3], "each"])
        return access_pattern(access.tensor, [*pattern, last], terms)
