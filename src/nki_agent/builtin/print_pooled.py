"""Prints a convolution whose result is pooled before it leaves SBUF.

Law: a tile of the result is whole windows of lines and of columns; what follows the sum runs on all
of it, then each window is reduced, and what is stored is the pool's.
"""

from __future__ import annotations

from nki_agent.builtin.plan import ConvolutionPlan, Pooling
from nki_agent.builtin.print_convolution import ConvolutionPrinter
from nki_agent.builtin.print_steps import StepPrinter
from nki_agent.builtin.regions import Window
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Size, Step, Store
from nki_agent.builtin.window_text import divided, plus


class PooledPrinter(ConvolutionPrinter):
    """Prints one ConvolutionPlan that has a pool into a function body."""

    def __init__(
        self, plan: ConvolutionPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the functions of the stage, whose names begin with `prefix`."""
        assert plan.pool is not None
        self.pool: Pooling = plan.pool
        super().__init__(plan, source, scope, helpers=helpers, prefix=prefix)

    def _tile_steps(self) -> tuple[Step, ...]:
        return (*self.plan.levels[-1], *self.pool.steps)

    def _num_pixels(self) -> Size:
        area = self.pool.kernel[0] * self.pool.kernel[1]
        return tuple(n // area for n in super()._num_pixels())

    def _pixels_text(self) -> str:
        return self._pooled("out_lines")

    def _pooled(self, lines: str) -> str:
        """Windows of so many whole lines."""
        down, across = self.pool.kernel
        width = divided("out_width", across)
        return f"{divided(lines, down)} * {f'({width})' if across > 1 else width}"

    def _part_window(self, first: str, lines: str) -> Window:
        if not self.is_banded:
            return Window(count="num_pixels")
        return Window(start=self._pooled(first), count=self._pooled(lines))

    def _tile_loops(self, body: Source, printer: StepPrinter) -> None:
        add = body.add
        down, across = self.pool.kernel
        body.note("Tiles of equally many whole windows; wider lines are cut.")
        add(f"tile_width = min(out_width, BANK // {down * across} * {across})")
        each = f"({down} * tile_width)" if down > 1 else "tile_width"
        add(f"most = max(1, BANK // {each}) if tile_width == out_width else 1")
        windows = divided("lines", down)
        add(f"num_tiles = ({windows} + most - 1) // most")
        add(f"tile_lines = ({windows} + num_tiles - 1) // num_tiles{f' * {down}' * (down > 1)}")
        steps = StepPrinter(body, printer.scope, row_level=0, cols="total")
        add(f"total = {self._pooled('lines')}")
        steps.allocate(self.pool.product)
        with (
            body.block("for q0 in range(0, lines, tile_lines):"),
            body.block("for j0 in range(0, out_width, tile_width):"),
        ):
            add("count = min(tile_lines, lines - q0)")
            add("width = min(tile_width, out_width - j0)")
            add("cols = count * width")
            add("product = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.psum)")
            add("window = product.reshape((rows, count, width))")
            with body.block("for s in range(len(steps)):"):
                self._multiply(body)
            for step in self.plan.levels[-1]:
                self._step_in_part(step, printer)
            self._reduce(body)
        for step in self.pool.steps:
            if isinstance(step, Store):
                add(f"nisa.dma_copy(dst={self.parts[step.access]}, src={step.src.name})")
            else:
                # On the whole band: steps behind each tile would hold back the next one's.
                steps.print(step, 0)

    def _reduce(self, body: Source) -> None:
        """A tile's windows, each to its place in the band's."""
        add, pool = body.add, self.pool
        down, across = pool.kernel
        shape = f"(rows, count // {down}, {down}, width // {across}, {across})"
        body.note("Each window is reduced before it leaves.")
        add(f"windows = {pool.source.name}.reshape({shape}).permute((0, 1, 3, 2, 4))")
        first = plus(f"{divided('q0', down)} * ({divided('out_width', across)})",
                     divided("j0", across))  # fmt: skip
        add("high, wide = windows.shape[1], windows.shape[2]")
        add(f"n0 = {first}")
        add(f"part = {pool.product.name}[:, n0 : n0 + high * wide].reshape((rows, high, wide))")
        add(f"nisa.tensor_reduce(dst=part, op=nl.{pool.function}, data=windows, axis=(3, 4))")
