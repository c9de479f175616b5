"""Prints a convolution whose products make several neighbouring lines of the result at once.

Law: with few output channels a product leaves columns of the array idle. Lines that share most of
their input share a product: line q * n + r of the result lies on the partitions from r * pitch on,
so that to the loops this is a convolution with a stride of n lines, and with zero weights where a
line has no tap. What follows runs on all of them at once, and they are put in order last; first
only where it reads another image.
"""

from __future__ import annotations

from nki_agent.builtin.plan import ConvolutionPlan
from nki_agent.builtin.print_convolution import ConvolutionPrinter
from nki_agent.builtin.print_steps import StepPrinter
from nki_agent.builtin.regions import Window
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Kind, Load, Step, Store
from nki_agent.builtin.window_text import COLUMNS, LINES, PLANES, plus, scaled, share_lines


class SharedLinesPrinter(ConvolutionPrinter):
    """Prints one ConvolutionPlan with more than one line in each product."""

    def __init__(
        self, plan: ConvolutionPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the functions of the stage, whose names begin with `prefix`."""
        super().__init__(plan, source, scope, helpers=helpers, prefix=prefix)
        self.each = plan.lines_each
        self.sharing = plan.lines_each * plan.planes_each
        self.line_kernel = self.spans[LINES].kernel
        planes, lines, columns = self.spans
        self.spans = (planes, share_lines(lines, self.each), columns)
        self.is_banded = False
        self.pitch = plan.pitch

    def _sizes(self) -> None:
        super()._sizes()
        self.source.note(f"{self.each} lines of the result share each product.")
        self.source.add(f"line_groups = (out_lines + {self.each - 1}) // {self.each}")

    def _image(self) -> None:
        if self.plan.product.in_psum:
            self.source.add(f"turn = {'i + z' if self.has_planes else 'i'}")
        self._band("0", "line_groups")

    def _channels(self) -> str:
        return "outs"

    def _size_block(self, stop: str) -> None:
        self.source.add(f"outs = min({self.pitch}, {stop} - o0)")
        self.source.add(f"rows = {self._all_rows()}")

    def _all_rows(self) -> str:
        """Partitions of what follows: lines side by side, or those of one line."""
        return str(self.sharing * self.pitch) if self.plan.product.in_psum else "outs"

    def _open_block(self, start: str, stop: str) -> str:
        return f"for o0 in range({start}, {stop}, {self.pitch}):"

    def _unpack_block(self) -> list[str]:
        return ["o0", "outs", "weights", *self._kept(0)]

    def _reopen_block(self) -> None:
        self.source.add(f"{', '.join(self._unpack_block())} = block")
        self.source.add(f"rows = {self._all_rows()}")

    def _part_window(self, first: str, lines: str) -> Window:
        del first, lines  # Whole images.
        if not self.has_planes:
            return Window(count="num_pixels")
        return Window(start="z * out_lines * out_width", count="out_lines * out_width")

    def _after_lines(self) -> list[str]:
        return ["out_lines", "outs", *(["turn"] if self.plan.product.in_psum else [])]

    def _step(self, step: Step, level: int) -> None:
        """What has one value for each channel is loaded once for each line."""
        is_column = isinstance(step, Load) and step.dst.kind is Kind.ROW
        if not is_column or not self.plan.product.in_psum:
            super()._step(step, level)
            return
        assert isinstance(step, Load)
        add, name = self.source.add, step.dst.name
        text = self._region(step.access, step.dst, is_store=False)
        self.steps.allocate(step.dst)
        add(f"nisa.memset(dst={name}, value=0.0)")
        with self.source.block(f"for r in range({self.sharing}):"):
            first = scaled("r", self.pitch)
            add(f"nisa.dma_copy(dst={name}[{first} : {first} + outs], src={text})")

    def _tile_loops(self, body: Source, printer: StepPrinter) -> None:
        add, each, all_rows = body.add, self.each, self.sharing * self.pitch
        in_order = not self.plan.product.in_psum
        body.note("Tiles of equally many groups of whole lines.")
        add(f"rows = {self._all_rows()}")
        add("most = max(1, BANK // out_width)")
        add("num_tiles = (lines + most - 1) // most")
        add("tile_lines = (lines + num_tiles - 1) // num_tiles")
        with body.block("for q0 in range(0, lines, tile_lines):"):
            add("count, j0, width = min(tile_lines, lines - q0), 0, out_width")
            name = "sums" if in_order else "product"
            shape = f"({all_rows}, count * width)"
            add(f"{name} = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.psum)")
            add(f"window = {name}.reshape(({all_rows}, count, width))")
            with body.block("for s in range(len(steps)):"):
                self._multiply(body)
            add(f"num_lines = min(count * {each}, out_lines - q0 * {each})")
            add(f"n0 = q0 * {each} * width")
            if in_order:
                add("cols = num_lines * width")
                add("product = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.sbuf)")
                self._put_in_order(body, "product", "window")
            else:
                add("cols = count * width")
            for step in self.plan.levels[-1]:
                if isinstance(step, Store) and not in_order:
                    self._store_in_order(step, body)
                else:
                    self._step_in_part(step, printer)

    def _put_in_order(self, body: Source, target: str, source: str) -> None:
        """Lines that lie side by side on the partitions, one after the other."""
        add, each, pitch = body.add, self.each, self.pitch
        body.note("The lines in order; two engines share the copies.")
        with body.block(f"for r in range(min({each}, num_lines)):"):
            add(f"part = {target}.reshape((outs, num_lines, width))[:, r::{each}, :]")
            first = scaled("r", pitch)
            add(f"own = {source}[{first} : {first} + outs, : part.shape[1], :]")
            with body.block("if r % 2:"):
                add("nisa.activation(dst=part, op=nl.copy, data=own)")
            with body.block("else:"):
                add("nisa.tensor_copy(dst=part, src=own)")

    def _store_in_order(self, step: Store, body: Source) -> None:
        tile = step.src
        # Of few partitions only as few DMA engines would store.
        body.note("On other partitions than the tile before: other DMA engines store it.")
        body.add(f"spot = (turn * num_tiles + q0 // tile_lines) % {self.each} * {self.pitch}")
        body.add(
            f"{tile.name}_all = nl.ndarray(({self.each * self.pitch}, num_lines * width),"
            f" dtype=nl.{tile.dtype.value}, buffer=nl.sbuf)"
        )
        body.add(f"{tile.name}_lines = {tile.name}_all[spot : spot + outs]")
        shaped = f"{tile.name}.reshape((rows, count, width))"
        self._put_in_order(body, f"{tile.name}_lines", shaped)
        part = f"{self.parts[step.access]}[:, n0 : n0 + num_lines * width]"
        body.add(f"nisa.dma_copy(dst={part}, src={tile.name}_lines)")

    def _define_load_weights(self) -> None:
        body = Source(depth=1)
        add = body.add
        add('"""Rows of weights [out, in * taps] as an operand [in, line * out] for each step."""')
        add("outs = weight.shape[0]")
        planes, all_taps = self._widen(body)
        add(self._new_weights(str(self.sharing * self.pitch)))
        add("nisa.memset(dst=weights, value=0.0)")
        with body.block("for s in range(len(steps)):"):
            add(self._unpack())
            add("channels = min(PARTITIONS, depth - c0)")
            add(f"size = {self._size()}")
            with body.block(f"for r in range({self.sharing}):"):
                add("turned = nl.ndarray((size, outs), dtype=weight.dtype, buffer=nl.psum)")
                wide = self.spans[COLUMNS].kernel
                plane, line = self._first_taps()
                offset = plus(
                    scaled("c0", planes * all_taps),
                    scaled(plane, all_taps),
                    scaled(line, wide),
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
                first = scaled("r", self.pitch)
                add(self._keep_weights(f"{first} : {first} + outs"))
        add("return weights")
        self._define("load_weights", ["weight", "steps", "depth"], body)

    def _first_taps(self) -> tuple[str, str]:
        """The planes and lines of the widened weights from which on line r of a group has them."""
        return self._tap("p"), f"({plus(self._tap('k'), str(self.each - 1))} - r)"

    def _widen(self, body: Source) -> tuple[int, int]:
        """Zeros beside the weights of each channel; how many planes these are, and taps of each."""
        add, shift = body.add, self.each - 1
        planes, wide = self.spans[PLANES].kernel, self.spans[COLUMNS].kernel
        taps = self.line_kernel * wide
        depth = scaled("depth", planes)
        add(f"tile = nl.ndarray((outs, {depth}, {taps}), dtype=weight.dtype, buffer=nl.sbuf)")
        add("nisa.dma_copy(dst=tile, src=weight)")
        body.note("Zeros on both sides, for the lines of a group that do not reach a tap.")
        all_taps = (self.line_kernel + 2 * shift) * wide
        add(f"wide = nl.ndarray((outs, {depth}, {all_taps}), dtype=weight.dtype, buffer=nl.sbuf)")
        add("nisa.memset(dst=wide, value=0.0)")
        add(f"nisa.tensor_copy(dst=wide[:, :, {shift * wide} : {shift * wide + taps}], src=tile)")
        return planes, all_taps
