"""Prints a transposed convolution: one ordinary sum for each phase of the result's pixels.

Law: with a stride s, result line q * s + a reads input line q + shift through the taps k for which
a + before - k * dilation is s * shift; columns are alike. Phases are put together in SBUF.
"""

from __future__ import annotations

import contextlib

from nki_agent.builtin.plan import Span
from nki_agent.builtin.print_convolution import ConvolutionPrinter
from nki_agent.builtin.print_steps import StepPrinter
from nki_agent.builtin.text import PartScope, Source
from nki_agent.builtin.window_text import COLUMNS, LINES, divided, plus


def taps_of_phases(span: Span) -> list[list[tuple[int, int]]]:
    """For each phase of the result its taps, and the input that each reads from the phase's own."""
    phases = []
    for phase in range(span.stride):
        apart = [(k, phase + span.before - k * span.dilation) for k in range(span.kernel)]
        phases.append([(k, d // span.stride) for k, d in apart if d % span.stride == 0])
    return phases


def sums_of_phases(
    span: Span, stack: int
) -> tuple[list[list[tuple[int, int, int]]], list[list[int]]]:
    """For each phase its sums (operand, taps side by side, first shift); taps of each operand.

    Taps whose inputs follow each other lie side by side on the partitions.
    """
    operands: list[list[int]] = []
    phases = []
    for taps in taps_of_phases(span):
        sums: list[tuple[int, int, int]] = []
        for k, shift in sorted(taps, key=lambda tap: tap[1]):
            if sums:
                operand, count, first = sums[-1]
                if count < stack and shift == first + count:
                    operands[operand].append(k)
                    sums[-1] = (operand, count + 1, first)
                    continue
            sums.append((len(operands), 1, shift))
            operands.append([k])
        phases.append(sums)
    return phases, operands


class TransposedPrinter(ConvolutionPrinter):
    """Prints one transposed ConvolutionPlan into a function body."""

    def _columns_of_weights(self) -> str:
        return f"{self.plan.weight}.reshape((num_in, num_out, {self.taps}))"

    def _list_steps(self) -> None:
        add = self.source.add
        lines, columns = self.spans[LINES], self.spans[COLUMNS]
        sums, operands = sums_of_phases(lines, self.stack[LINES])
        self.source.note("Line taps of each operand, which lie side by side on the partitions.")
        add(f"line_taps = {operands}")
        self.source.note(
            "For each phase of lines (operand, number of taps, first shift of the input), and of"
            " columns (tap, shift)."
        )
        add(f"line_sums = {sums}")
        add(f"column_taps = {taps_of_phases(columns)}")
        add("steps = list_steps(line_sums, column_taps, num_in)")

    def _load_weights(self) -> str:
        rows = "weight_rows[:, o0 : o0 + rows, :]"
        return f"weights = {self.prefix}load_weights({rows}, line_taps)"

    def _rows(self) -> str:
        return f"weights.shape[{3 + self.plan.is_split}] // {self.spans[COLUMNS].kernel}"

    def _given_depth(self) -> list[str]:
        return ["num_in"]

    def _define_load_weights(self) -> None:
        body = Source(depth=1)
        add = body.add
        wide = self.spans[COLUMNS].kernel
        add('"""Weights [in, out, taps] as [in of all taps, block of in, operand, column, out]."""')
        add("depth, rows, taps = weight.shape")
        add("blocks = (depth + PARTITIONS - 1) // PARTITIONS")
        is_split = self.plan.is_split
        halves, dtype = ("2, ", "nl.bfloat16") if is_split else ("", "weight.dtype")
        add(
            f"weights = nl.ndarray((PARTITIONS, {halves}blocks, len(line_taps), {wide} * rows),"
            f" dtype={dtype}, buffer=nl.sbuf)"
        )
        with body.block("for c0 in range(0, depth, PARTITIONS):"):
            add("channels = min(PARTITIONS, depth - c0)")
            add("tile = nl.ndarray((channels, rows, taps), dtype=weight.dtype, buffer=nl.sbuf)")
            add("nisa.dma_copy(dst=tile, src=weight[c0 : c0 + channels, :, :])")
            body.note("Taps apart, so that each is one run of output channels.")
            add("apart = nl.ndarray((channels, taps, rows), dtype=weight.dtype, buffer=nl.sbuf)")
            add("nisa.tensor_copy(dst=apart, src=tile.permute((0, 2, 1)))")
            if is_split:
                add(
                    "halves = nl.ndarray((channels, 2, taps, rows), dtype=nl.bfloat16,"
                    " buffer=nl.sbuf)"
                )
                add("split(halves, apart)")
            per_operand = body.block("for g in range(len(line_taps)):")
            with per_operand, body.block("for f in range(len(line_taps[g])):"):
                add(f"first = line_taps[g][f] * {wide}")
                half, source = (":, ", "halves[:, :, ") if is_split else ("", "apart[:, ")
                add(
                    "nisa.dma_copy("
                    f"dst=weights[f * channels : (f + 1) * channels, {half}c0 // PARTITIONS, g, :],"
                    f" src={source}first : first + {wide}, :])"
                )
        add("return weights")
        self._define("load_weights", ["weight", "line_taps"], body)

    def _shifts(self) -> tuple[int, int]:
        """The first and the last line that the phases read from their own."""
        sums, _ = sums_of_phases(self.spans[LINES], self.stack[LINES])
        shifts = [first for phase in sums for _, _, first in phase]
        return min(shifts), max(shifts)

    def _define_load_band(self) -> None:
        body = Source(depth=1)
        first, last = self._shifts()
        stride, copies = self.spans[LINES].stride, self.stack[LINES]
        body.add(
            '"""What `lines` lines of the result from r0 on read, whole lines; zero outside."""'
        )
        body.add("channels = image.shape[0]")
        lines = "lines" if stride == 1 else f"(lines + {stride - 1}) // {stride}"
        count = plus(lines, str(last - first))
        parts = "channels" if copies == 1 else f"{copies} * channels"
        body.add(
            f"band = nl.ndarray(({parts}, {count}, image.shape[2]), dtype=image.dtype,"
            " buffer=nl.sbuf)"
        )
        body.add(f"top = {plus('r0' if stride == 1 else f'r0 // {stride}', str(first))}")
        self._zero_lines(body, 1)
        if copies == 1:
            body.add("load_moved(band, image, top, 0, 1)")
        else:
            with body.block(f"for f in range({copies}):"):
                body.add(
                    "load_moved(band[f * channels : (f + 1) * channels], image, top + f, 0, 1)"
                )
        self._return_band(body, f"{count}, image.shape[2]", parts=parts)
        self._define("load_band", ["image", "r0", "lines"], body)

    def _define_convolve(self) -> None:
        body = Source(depth=1)
        scope = PartScope({}, {})
        printer = StepPrinter(body, scope, row_level=2, cols="cols")
        add = body.add
        high, wide = self.spans[LINES].stride, self.spans[COLUMNS].stride
        add('"""The lines of one band for one block of channels, phase by phase."""')
        add(f"rows = {self._rows()}")
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
                per_line = body.block(f"for a in range(min({high}, count)):")
                with per_line, body.block(f"for b in range(min({wide}, width)):"):
                    add(f"part = window[:, a::{high}, b::{wide}]")
                    top = plus(divided("q0", high), str(-self._shifts()[0]))
                    left = divided("j0", wide)
                    add(
                        f"{self.prefix}add_up(part, bands, weights, steps[a][b], depth,"
                        f" {top}, {left})"
                    )
                for step in self.plan.levels[-1]:
                    self._step_in_part(step, printer)
        self.factors = scope.given
        kept = [*self._kept(0), *self._kept(1)]
        given = [*self.parts.values(), *kept, *self.factors, "bands", "weights", "steps", "depth"]
        self._define_add_up()
        self._define("convolve", [*given, "lines", "out_width"], body)

    def _define_add_up(self) -> None:
        body = Source(depth=1)
        add = body.add
        wide = self.spans[COLUMNS].kernel
        add('"""One phase: the sum over its taps, and the copy that puts it in its place."""')
        add("rows, down, across = part.shape")
        add("sums = nl.ndarray((rows, down, across), dtype=nl.float32, buffer=nl.psum)")
        with body.block("for s in range(len(steps)):"):
            add("c0, operand, count, row, j, column = steps[s]")
            add("size = count * min(PARTITIONS, depth - c0)")
            add("band = bands[c0 // PARTITIONS]")
            width = f"band.shape[{2 + self.plan.is_split}]"
            add(f"begin, end = inside(left + column, 1, across, {width})")
            with body.block("if begin < end:"):
                add("first = left + column + begin")
                own = "j * rows : (j + 1) * rows" if wide > 1 else ":"
                x_half, w_half = ("x_half, ", "w_half, ") if self.plan.is_split else ("", "")
                loop: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
                if self.plan.is_split:
                    body.note("The product of both second parts is too small to count.")
                    loop = body.block("for x_half, w_half in ((0, 0), (0, 1), (1, 0)):")
                with loop:
                    add(
                        "nisa.nc_matmul(dst=sums[:, :, begin:end],"
                        f" stationary=weights[:size, {w_half}c0 // PARTITIONS, operand, {own}],"
                        f" moving=band[:size, {x_half}top + row : top + row + down,"
                        " first : first + end - begin])"
                    )
        add("nisa.tensor_copy(dst=part, src=sums)")
        self._define("add_up", ["part", "bands", "weights", "steps", "depth", "top", "left"], body)
