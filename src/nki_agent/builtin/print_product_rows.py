"""Prints a product together with the pass over its rows.

The function that multiplies a tile hands its rows, still in SBUF, to the first phase of the pass.
"""

from __future__ import annotations

from nki_agent.builtin.phases import Phases
from nki_agent.builtin.plan import MatmulPlan, RowTail
from nki_agent.builtin.print_matmul import MatmulPrinter
from nki_agent.builtin.print_steps import StepPrinter, layout_of, step_of
from nki_agent.builtin.regions import Window
from nki_agent.builtin.text import PartScope, Scope, Source
from nki_agent.builtin.tile_steps import Access, AffineSelect, Iota, Kind, Load, Store, Tile


class ProductRowsPrinter(MatmulPrinter):
    """Prints one MatmulPlan with a tail into a function body."""

    def __init__(
        self, plan: MatmulPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the functions, whose names begin with `prefix`."""
        super().__init__(plan, source, scope, helpers=helpers, prefix=prefix)
        assert plan.tail is not None
        self.tail: RowTail = plan.tail
        steps = self.tail.levels[-1]
        by_position = any(isinstance(step, Iota | AffineSelect) for step in steps)
        self.phases = Phases(
            self.tail.levels[-1],
            self.tail.cuts,
            row_level=self.last,
            prefix=prefix,
            made=self.tail.whole.access,
            start="r0" if by_position else "",
        )

    # -- functions --------------------------------------------------------------------------------
    def _define_multiply(self) -> None:
        super()._define_multiply()
        scope = PartScope({}, {"num_cols": self.plan.n})
        printer = StepPrinter(Source(), scope, row_level=self.last, cols="num_cols")
        printer.position = self._position
        self.phases.define(self.helpers, printer)
        self.numbers = scope.given

    @staticmethod
    def _position(access: Access, tile: Tile) -> tuple[str, str, str]:
        """Whole numbers along rows and columns, in a function that knows the first row."""
        *_, (row, *_), (col, *_) = access.strides
        start = access.offset[0]
        terms = [str(start)] if start else []
        terms += [step_of("r0", str(row))] if row else []
        pattern = f"[[{col}, num_cols]]" if tile.is_wide else "[[1, 1]]"
        multiplier = "0" if tile.kind in (Kind.VECTOR, Kind.ONE) else str(row)
        return pattern, " + ".join(terms).replace("+ -", "- "), multiplier

    def _begin_rows(self, source: Source) -> None:
        tile = self.tail.whole.dst
        dtype = f"nl.{tile.dtype.value}"
        source.add(f"{tile.name} = nl.ndarray((rows, num_cols), dtype={dtype}, buffer=nl.sbuf)")

    def _begin_block(self, source: Source, printer: StepPrinter) -> None:
        block = self.tail.block
        source.add(f"{block.name} = {self.tail.whole.dst.name}[:, n0 : n0 + cols]")
        printer.take(block)

    def _end_rows(self, source: Source) -> None:
        source.add(f"return {self.tail.whole.dst.name}")

    # -- loops ------------------------------------------------------------------------------------
    def print(self) -> None:
        """The product, tile by tile, and what follows for its rows."""
        super().print()
        if self.tail.cuts:
            self.phases.drain(self.source)

    def _level(self, level: int) -> None:
        if level == 0:
            for name, number in self.numbers.items():
                self.source.add(f"{name} = {self.scope.number(number)}")
            if self.tail.cuts:
                self.phases.open(self.source)
        for step in self.tail.levels[level] if level < self.last else ():
            self._step(step, level)
        super()._level(level)

    def _put_off(self, given: list[str]) -> None:
        rest = self.phases.given(self._part_of)
        behind = f"({', '.join(rest)}{',' if len(rest) == 1 else ''})"
        self.source.add(f"ready.append((({', '.join(given)}), {behind}))")
        with self.source.block("if len(ready) > 1:"):
            self.source.add("operands, rest = ready.pop(0)")
            self._advance()

    def _advance(self) -> None:
        first = f"{self.phases.name(0)}({self.multiply}(*operands), *rest)"
        self.phases.advance(self.source, first)

    def _drain(self) -> None:
        with self.source.block("for operands, rest in ready:"):
            self._advance()

    def _part_of(self, step: Load | Store) -> str:
        """The rows of a tensor that belong to a tile."""
        tile: Tile = step.src if isinstance(step, Store) else step.dst
        is_spread = isinstance(step, Load) and tile.kind in (Kind.VECTOR, Kind.ONE)
        if step.access == self.tail.whole.access:
            return tile.name
        windows = self.loops.windows(Window(start="r0", count="rows"), Window(count="num_cols"))
        spread = "rows" if is_spread else ""
        return self.out_regions.text(layout_of(step.access), windows, spread=spread)
