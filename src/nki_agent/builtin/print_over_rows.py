"""Prints a pass over rows whose total is made over the partitions."""

from __future__ import annotations

from collections.abc import Iterable

from nki_agent.builtin.plan import RowsPlan, Total
from nki_agent.builtin.print_rows import RowsPrinter
from nki_agent.builtin.regions import Axis, Regions, access_pattern, times
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access, Kind, Tile


class OverRowsPrinter(RowsPrinter):
    """Prints one such RowsPlan into a function body.

    A tile holds `each` neighbouring rows of the result: for each of them, all that is added up.
    """

    def __init__(
        self, plan: RowsPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the functions of phases, whose names begin with `prefix`."""
        super().__init__(plan, source, scope, helpers=helpers, prefix=prefix)
        # The last tile has fewer rows than what all tiles share.
        self.step_level = self.steps.row_level = self.row_level + 1
        self.turn = self.outer[-1]

    def _sizes(self) -> None:
        super()._sizes()
        self.source.note("A tile holds all that is added up for so many rows of the result.")
        self.source.add(f"each = min(PARTITIONS // num_rows, num_{self.turn})")

    def _make_identity(self) -> None:
        """As a band: what is cut out of it adds the partitions of a tile to their rows."""
        add, width = self.source.add, "2 * PARTITIONS"
        self.source.note("belongs[p, PARTITIONS + k] is 1 where partition p is a part of row k.")
        add(f"belongs = nl.ndarray((PARTITIONS, {width}), dtype=nl.float32, buffer=nl.sbuf)")
        add("nisa.memset(dst=belongs, value=1.0)")
        for step, lane, start in (
            ("-num_rows", "1", "num_rows * PARTITIONS"),
            ("num_rows", "-1", "num_rows - 1 - num_rows * PARTITIONS"),
        ):
            add(
                f"nisa.affine_select(dst=belongs, pattern=[[{step}, {width}]],"
                f" channel_multiplier={lane}, offset={start}, on_true_tile=belongs,"
                " on_false_value=0.0, cmp_op=nl.greater_equal)"
            )

    def _make_views(self) -> None:
        """Tensors are read along their strides: a tile has two of their axes on the partitions."""
        axes = [
            Axis(name=f"num_{name}", size=size)
            for name, size in zip(self.outer, self.plan.outer, strict=True)
        ]
        axes += [Axis(name="num_rows", size=self.plan.rows)]
        axes += [Axis(name="num_cols", size=self.plan.cols)]
        self.regions = Regions(self.source, self.scope, axes)

    def _level(self, level: int) -> None:
        if level + 1 != self.row_level:
            super()._level(level)
            return
        for step in self.plan.levels[level]:
            self._step(step, level)
        self.source.add("rows = each * num_rows")
        super()._level(self.row_level)

    def _total(self, total: Total) -> None:
        add, turn = self.source.add, self.turn
        tile = total.tile.name
        with self.source.block(f"for {turn}0 in range(0, num_{turn}, PARTITIONS):"):
            add(f"size = min(PARTITIONS, num_{turn} - {turn}0)")
            self.source.note("The Tensor Engine adds up in PSUM.")
            add(f"{tile} = nl.ndarray((size, num_cols), dtype=nl.float32, buffer=nl.psum)")
            if self.phases is not None:
                self.phases.open(self.source)
            with self.source.block(f"for {turn} in range({turn}0, {turn}0 + size, each):"):
                add(f"count = min(each, {turn}0 + size - {turn})")
                add("rows = count * num_rows")
                add(f"first = PARTITIONS + {turn}0 - {turn}")
                self._turn("belongs[:rows, first : first + size]")
            if self.phases is not None:
                self.phases.drain(self.source)
            dtype = f"nl.{total.dtype.value}"
            add(f"{tile}_tile = nl.ndarray((size, num_cols), dtype={dtype}, buffer=nl.sbuf)")
            add(f"nisa.activation(dst={tile}_tile, op=nl.copy, data={tile})")
            add(f"nisa.dma_copy(dst={self._target(total.target)}, src={tile}_tile)")

    def _target(self, access: Access) -> str:
        """Rows of the result, one for each partition."""
        steps = self.regions.paces(access.strides)
        starts = [*self.outer[:-1], f"{self.turn}0"]
        terms = self._terms(access, zip(starts, steps, strict=False))
        return access_pattern(access.tensor, [[steps[-3], "size"], [steps[-1], "num_cols"]], terms)

    def _terms(self, access: Access, walks: Iterable[tuple[str, str]]) -> list[str]:
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        return terms + [times(loop, step) for loop, step in walks if step != "0"]

    def _region(self, access: Access, tile: Tile, *, is_store: bool) -> str:
        """For each row of the result in the tile, what is added up for it."""
        assert not is_store, "only totals are stored"
        steps = self.regions.paces(access.strides)
        terms = self._terms(access, zip(self.outer, steps, strict=False))
        last = [steps[-1], "num_cols"] if tile.is_wide else ["1", "1"]
        if tile.kind in (Kind.VECTOR, Kind.ONE) and tile.level < self.row_level:
            return access_pattern(access.tensor, [["0", "PARTITIONS"], last], terms)
        count = "count" if tile.level > self.row_level else "each"
        return access_pattern(
            access.tensor, [[steps[-3], count], [steps[-2], "num_rows"], last], terms
        )
