"""Prints a convolution of few output channels, several of whose tiles of pixels share a PSUM tile.

Law: tile t of a group lies on the partitions from t * pitch on: its weights stand in those columns
of the operand and zeros in all others, so that the sums of a group add up without touching each
other. What follows runs on all of them at once, and all DMA engines move what is stored.
"""

from __future__ import annotations

from nki_agent.builtin.plan import ConvolutionPlan
from nki_agent.builtin.print_convolution import ConvolutionPrinter
from nki_agent.builtin.print_steps import StepPrinter, tile_of
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Kind, Load, Step, Store
from nki_agent.builtin.window_text import scaled


class SharedTilesPrinter(ConvolutionPrinter):
    """Prints one ConvolutionPlan with more than one tile in each PSUM tile."""

    def __init__(
        self, plan: ConvolutionPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the functions of the stage, whose names begin with `prefix`."""
        super().__init__(plan, source, scope, helpers=helpers, prefix=prefix)
        self.each = plan.tiles_each
        self.pitch = plan.pitch

    def _channels(self) -> str:
        return "outs"

    def _size_block(self, stop: str) -> None:
        self.source.add(f"outs = min({self.pitch}, {stop} - o0)")
        self.source.add(f"rows = {self.each * self.pitch}")

    def _open_block(self, start: str, stop: str) -> str:
        return f"for o0 in range({start}, {stop}, {self.pitch}):"

    def _unpack_block(self) -> list[str]:
        return ["o0", "outs", "weights", *self._kept(0)]

    def _reopen_block(self) -> None:
        self.source.add(f"{', '.join(self._unpack_block())} = block")
        self.source.add(f"rows = {self.each * self.pitch}")

    def _after_lines(self) -> list[str]:
        return ["outs"]

    def _step(self, step: Step, level: int) -> None:
        """What has one value for each channel is loaded once for each tile of a group."""
        if not isinstance(step, Load) or step.dst.kind is not Kind.ROW:
            super()._step(step, level)
            return
        add, name = self.source.add, step.dst.name
        text = self._region(step.access, step.dst, is_store=False)
        self.steps.allocate(step.dst)
        add(f"nisa.memset(dst={name}, value=0.0)")
        with self.source.block(f"for t in range({self.each}):"):
            first = scaled("t", self.pitch)
            add(f"nisa.dma_copy(dst={name}[{first} : {first} + outs], src={text})")

    def _define_load_weights(self) -> None:
        body = Source(depth=1)
        add = body.add
        beside = (self.each - 1) * self.pitch
        add('"""Rows of weights [out, in * taps] as operands [in, out], zeros on both sides."""')
        add("outs = weight.shape[0]")
        self._load_rows_of_weights(body)
        add(self._new_weights(str(2 * beside + self.pitch)))
        add("nisa.memset(dst=weights, value=0.0)")
        with body.block("for s in range(len(steps)):"):
            add(self._unpack())
            add("channels = min(PARTITIONS, depth - c0)")
            add(f"size = {self._size()}")
            add("turned = nl.ndarray((size, outs), dtype=weight.dtype, buffer=nl.psum)")
            add(f"nisa.nc_transpose(dst=turned, data={self._weight_taps('outs')})")
            add(self._keep_weights(f"{beside} : {beside} + outs"))
        add("return weights")
        self._define("load_weights", self._given_weights(), body)

    def _operand(self, half: str = "") -> str:
        """The weights of a step, in the columns of tile t."""
        first = f"({self.each - 1} - t) * {self.pitch}"
        return f"weights[:size, {half}s, {first} : {first} + rows]"

    def _tile_loops(self, body: Source, printer: StepPrinter) -> None:
        add, each = body.add, self.each
        add(f"rows = {each * self.pitch}")
        body.note("Groups of tiles of equally many whole lines.")
        add("most, first_line = max(1, BANK // out_width), 0")
        with body.block("while first_line < lines:"):
            add(f"count = max(1, min(most, (lines - first_line) // {each}))")
            add(f"num_tiles = min({each}, (lines - first_line) // count)")
            add("j0, width = 0, out_width")
            add("n0, cols = first_line * width, count * width")
            add("product = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.psum)")
            add("window = product.reshape((rows, count, width))")
            tiles = body.block("for t in range(num_tiles):")
            with tiles:
                add("q0 = first_line + t * count")
                with body.block("for s in range(len(steps)):"):
                    self._multiply(body)
            for step in self.plan.levels[-1]:
                self._step_in_part(step, printer)
            add("first_line += num_tiles * count")

    def _step_in_part(self, step: Step, printer: StepPrinter) -> None:
        """Each tile of a group has its own part of what is loaded and stored."""
        if not isinstance(step, Load | Store):
            printer.print(step, 2)
            return
        add, tile = printer.source.add, tile_of(step)
        part = f"{self.parts[step.access]}[:, n0 + t * cols : n0 + (t + 1) * cols]"
        own = f"{tile.name}[{scaled('t', self.pitch)} : {scaled('t', self.pitch)} + outs]"
        if isinstance(step, Load):
            printer.allocate(tile)
            with printer.source.block("if num_tiles * outs < rows:"):
                add(f"nisa.memset(dst={tile.name}, value=0.0, engine=nisa.engine.gpsimd)")
        with printer.source.block("for t in range(num_tiles):"):
            dst, src = (own, part) if isinstance(step, Load) else (part, own)
            add(f"nisa.dma_copy(dst={dst}, src={src})")
