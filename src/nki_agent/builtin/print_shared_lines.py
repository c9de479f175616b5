"""Prints a convolution whose products make several neighbouring lines of the result at once.

Law: with few output channels a product leaves columns of the array idle. Lines that share most of
their input share a product: line q * n + r of the result is row r of tile q, so that to the loops
this is a convolution with a stride of n lines, and with zero weights where a line has no tap.
"""

from __future__ import annotations

from nki_agent.builtin.plan import ConvolutionPlan, Kind, Load, Step, Store
from nki_agent.builtin.print_convolution import ConvolutionPrinter
from nki_agent.builtin.print_rows import StepPrinter, tile_of
from nki_agent.builtin.regions import Window
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.window_text import COLUMNS, LINES, PLANES, plus, scaled, share_lines


class SharedLinesPrinter(ConvolutionPrinter):
    """Prints one ConvolutionPlan with more than one line in each product."""

    def __init__(
        self, plan: ConvolutionPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the functions of the stage, whose names begin with `prefix`."""
        super().__init__(plan, source, scope, helpers=helpers, prefix=prefix)
        self.each = plan.lines_each
        self.line_kernel = self.spans[LINES].kernel
        planes, lines, columns = self.spans
        self.spans = (planes, share_lines(lines, self.each), columns)
        self.is_banded = False

    def _sizes(self) -> None:
        super()._sizes()
        self.source.note(f"{self.each} lines of the result share each product.")
        self.source.add(f"line_groups = (out_lines + {self.each - 1}) // {self.each}")

    def _open_block(self, start: str, stop: str) -> str:
        return f"for o0 in range({start}, {stop}, PARTITIONS // {self.each}):"

    def _size_block(self, stop: str) -> None:
        self.source.add(f"outs = min(PARTITIONS // {self.each}, {stop} - o0)")
        self.source.add(f"rows = {self.each} * outs")

    def _channels(self) -> str:
        return "outs"

    def _reopen_block(self) -> None:
        super()._reopen_block()
        self.source.add(f"outs = rows // {self.each}")

    def _image(self) -> None:
        self._band("0", "line_groups")

    def _part_window(self, first: str, lines: str) -> Window:
        if not self.has_planes:
            return Window(count="num_pixels")
        return Window(start="z * out_lines * out_width", count="out_lines * out_width")

    def _after_lines(self) -> list[str]:
        return ["out_lines"]

    def _step(self, step: Step, level: int) -> None:
        """What has one value for each channel is loaded once for each line."""
        if isinstance(step, Load) and step.dst.kind is Kind.ROW:
            self.steps.allocate(step.dst)
            text = self._region(step.access, step.dst, is_store=False)
            with self.source.block(f"for r in range({self.each}):"):
                self.source.add(
                    f"nisa.dma_copy(dst={step.dst.name}[r * outs : (r + 1) * outs], src={text})"
                )
        elif isinstance(step, Store):
            text = self._region(step.access, step.src, is_store=True)
            self.source.add(f"nisa.dma_copy(dst={text}, src={step.src.name}[:outs])")
        else:
            super()._step(step, level)

    def _step_in_part(self, step: Step, printer: StepPrinter) -> None:
        if not isinstance(step, Load | Store):
            printer.print(step, 2)
            return
        tile = tile_of(step)
        outs = f"rows // {self.each}"
        image = f"{self.parts[step.access]}.reshape(({outs}, out_lines, out_width))"
        lines = f"{tile.name}.reshape((rows, count, width))"
        if isinstance(step, Load):
            printer.allocate(tile)
            printer.source.add(f"load_lines({lines}, {image}, q0, j0, {self.each})")
        else:
            printer.source.add(f"store_lines({image}, {lines}, q0, j0, {self.each})")

    def _define_load_weights(self) -> None:
        body = Source(depth=1)
        add = body.add
        planes, wide = self.spans[PLANES].kernel, self.spans[COLUMNS].kernel
        shift = self.each - 1
        taps = self.line_kernel * wide
        depth = scaled("depth", planes)
        add('"""Rows of weights [out, in * taps] as an operand [in, line * out] for each step."""')
        add("outs = weight.shape[0]")
        add(f"tile = nl.ndarray((outs, {depth}, {taps}), dtype=weight.dtype, buffer=nl.sbuf)")
        add("nisa.dma_copy(dst=tile, src=weight)")
        body.note("Zeros on both sides, for the lines of a group that do not reach a tap.")
        all_taps = (self.line_kernel + 2 * shift) * wide
        add(f"wide = nl.ndarray((outs, {depth}, {all_taps}), dtype=weight.dtype, buffer=nl.sbuf)")
        add("nisa.memset(dst=wide, value=0.0)")
        add(f"nisa.tensor_copy(dst=wide[:, :, {shift * wide} : {shift * wide + taps}], src=tile)")
        add(
            f"weights = nl.ndarray((PARTITIONS, len(steps), {self.each} * outs),"
            " dtype=weight.dtype, buffer=nl.sbuf)"
        )
        with body.block("for s in range(len(steps)):"):
            add(self._unpack())
            add("channels = min(PARTITIONS, depth - c0)")
            add(f"size = {self._size()}")
            with body.block(f"for r in range({self.each}):"):
                add("turned = nl.ndarray((size, outs), dtype=weight.dtype, buffer=nl.psum)")
                offset = plus(
                    scaled("c0", planes * all_taps),
                    scaled(self._tap("p"), all_taps),
                    scaled(f"({plus(self._tap('k'), str(shift))} - r)", wide),
                    self._tap("j"),
                )
                pattern = [f"[{scaled('depth', planes * all_taps)}, outs]"]
                if self.stack[PLANES] > 1:
                    pattern.append(f"[{all_taps}, {self.stack[PLANES]}]")
                if self.stack[LINES] > 1:
                    pattern.append(f"[{wide}, {self._stacked()}]")
                if self.stack[COLUMNS] > 1:
                    pattern.append(f"[1, {wide}]")
                pattern.append(f"[{planes * all_taps}, channels]")
                taps_text = f"wide.ap(pattern=[{', '.join(pattern)}], offset={offset})"
                add(f"nisa.nc_transpose(dst=turned, data={taps_text})")
                add(
                    "nisa.tensor_copy(dst=weights[:size, s, r * outs : (r + 1) * outs], src=turned)"
                )
        add("return weights")
        self._define("load_weights", ["weight", "steps", "depth"], body)
