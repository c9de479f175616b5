"""Prints a transposed convolution: one ordinary sum for each phase of the result's pixels.

Law: with a stride s, result line q * s + a reads input line q + shift through the taps k for which
a + before - k * dilation is s * shift; columns are alike. Phases are put together in SBUF.
"""

from __future__ import annotations

from nki_agent.builtin.plan import Span
from nki_agent.builtin.print_convolution import ConvolutionPrinter
from nki_agent.builtin.print_rows import StepPrinter
from nki_agent.builtin.text import PartScope, Source
from nki_agent.builtin.window_text import COLUMNS, LINES, plus, scaled


def taps_of_phases(span: Span) -> list[list[tuple[int, int]]]:
    """For each phase of the result its taps, and the input that each reads from the phase's own."""
    phases = []
    for phase in range(span.stride):
        apart = [(k, phase + span.before - k * span.dilation) for k in range(span.kernel)]
        phases.append([(k, d // span.stride) for k, d in apart if d % span.stride == 0])
    return phases


class TransposedPrinter(ConvolutionPrinter):
    """Prints one transposed ConvolutionPlan into a function body."""

    def _columns_of_weights(self) -> str:
        return f"{self.plan.weight}.reshape((num_in, num_out * {self.taps}))"

    def _list_steps(self) -> None:
        """The phases list them."""

    def _load_weights_call(self) -> str:
        return (
            f"{self.prefix}load_weights(weight_rows[:, o0 * {self.taps} : (o0 + rows) * {self.taps}])"
        )

    def _given_depth(self) -> list[str]:
        return ["num_in"]

    def _takes_steps(self) -> list[str]:
        return []

    def _define_load_weights(self) -> None:
        body = Source(depth=1)
        add = body.add
        add('"""Weights [in, out * taps] as [in, block of in, out, tap]."""')
        add("depth, cols = weight.shape")
        add("num_blocks = (depth + PARTITIONS - 1) // PARTITIONS")
        add(
            "weights = nl.ndarray((PARTITIONS, num_blocks, cols), dtype=weight.dtype,"
            " buffer=nl.sbuf)"
        )
        with body.block("for c0 in range(0, depth, PARTITIONS):"):
            add("channels = min(PARTITIONS, depth - c0)")
            add(
                "nisa.dma_copy(dst=weights[:channels, c0 // PARTITIONS, :],"
                " src=weight[c0 : c0 + channels, :])"
            )
        add(f"return weights.reshape((PARTITIONS, num_blocks, cols // {self.taps}, {self.taps}))")
        self._define("load_weights", ["weight"], body)

    def _shifts(self) -> tuple[int, int]:
        """The first and the last line that the phases read from their own."""
        shifts = [s for taps in taps_of_phases(self.spans[LINES]) for _, s in taps]
        return min(shifts), max(shifts)

    def _define_load_band(self) -> None:
        body = Source(depth=1)
        first, last = self._shifts()
        stride = self.spans[LINES].stride
        body.add('"""What `lines` lines of the result from r0 on read; zero where it is outside."""')
        body.add("channels = image.shape[0]")
        lines = "lines" if stride == 1 else f"(lines + {stride - 1}) // {stride}"
        count = plus(lines, str(last - first))
        body.add(
            f"band = nl.ndarray((channels, {count}, image.shape[2]), dtype=image.dtype,"
            " buffer=nl.sbuf)"
        )
        body.add(f"top = {plus('r0' if stride == 1 else f'r0 // {stride}', str(first))}")
        self._zero_lines(body, 1)
        body.add("load_moved(band, image, top, 0, 1)")
        body.add("return band")
        self._define("load_band", ["image", "r0", "lines"], body)

    def _define_convolve(self) -> None:
        body = Source(depth=1)
        scope = PartScope({}, {})
        printer = StepPrinter(body, scope, row_level=2, cols="cols")
        add = body.add
        high, wide = self.spans[LINES].stride, self.spans[COLUMNS].stride
        add('"""The lines of one band for one block of channels, phase by phase."""')
        add("rows = weights.shape[2]")
        body.note("For each phase of lines and of columns: (tap, shift) of the input that it reads.")
        add(f"line_taps = {taps_of_phases(self.spans[LINES])}")
        add(f"column_taps = {taps_of_phases(self.spans[COLUMNS])}")
        add(f"each_width = min(BANK, (out_width + {wide - 1}) // {wide})")
        add(f"tile_width = each_width * {wide}")
        add(f"tile_lines = max(1, BANK // each_width) * {high}")
        with body.block("for q0 in range(0, lines, tile_lines):"):
            add("count = min(tile_lines, lines - q0)")
            with body.block("for j0 in range(0, out_width, tile_width):"):
                add("width = min(tile_width, out_width - j0)")
                add("n0, cols = q0 * out_width + j0, count * width")
                add("product = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.sbuf)")
                add("window = product.reshape((rows, count, width))")
                with body.block(f"for a in range(min({high}, count)):"):
                    with body.block(f"for b in range(min({wide}, width)):"):
                        self._phase(body)
                for step in self.plan.levels[-1]:
                    self._step_in_part(step, printer)
        self.factors = scope.given
        kept = [*self._kept(0), *self._kept(1)]
        given = [*self.parts.values(), *kept, *self.factors, "bands", "weights", "depth"]
        self._define("convolve", [*given, "lines", "out_width"], body)

    def _phase(self, body: Source) -> None:
        """One phase: a sum over its taps, and the copy that puts it in its place."""
        add = body.add
        high, wide = self.spans[LINES].stride, self.spans[COLUMNS].stride
        first, _ = self._shifts()
        add(f"part = window[:, a::{high}, b::{wide}]")
        add("down, across = part.shape[1], part.shape[2]")
        add("sums = nl.ndarray((rows, down, across), dtype=nl.float32, buffer=nl.psum)")
        with body.block("for c0 in range(0, depth, PARTITIONS):"):
            add("channels = min(PARTITIONS, depth - c0)")
            add("band = bands[c0 // PARTITIONS]")
            with body.block("for k, row in line_taps[a]:"):
                own = "q0" if high == 1 else f"q0 // {high}"
                add(f"top = {plus(own, 'row', str(-first))}")
                with body.block("for j, column in column_taps[b]:"):
                    add(f"left = {plus('j0' if wide == 1 else f'j0 // {wide}', 'column')}")
                    add("begin, end = inside(left, 1, across, band.shape[2])")
                    with body.block("if begin < end:"):
                        tap = plus(scaled("k", self.spans[COLUMNS].kernel), "j")
                        add(
                            "nisa.nc_matmul(dst=sums[:, :, begin:end],"
                            f" stationary=weights[:channels, c0 // PARTITIONS, :, {tap}],"
                            " moving=band[:channels, top : top + down, left + begin : left + end])"
                        )
        add("nisa.tensor_copy(dst=part, src=sums)")
