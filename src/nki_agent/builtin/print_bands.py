"""Prints how a convolution's input is loaded: whole lines, side by side for the taps of a step.

Law: a band holds what the windows of its lines of the result read; lines outside are zero, columns
outside are left out where a product reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nki_agent.builtin.plan import ConvolutionPlan, Span
from nki_agent.builtin.print_steps import StepPrinter, tile_of
from nki_agent.builtin.text import Source
from nki_agent.builtin.tile_steps import Access, Load, Step, Store, Tile
from nki_agent.builtin.window_text import COLUMNS, LINES, PLANES, is_inside, plus, scaled, times

TILE_LEVEL = 2
"""Of the steps of a tile, within those of weights and of rows."""


@dataclass(frozen=True, slots=True)
class MovedTogether:
    """Steps on some tiles side by side: what they read and write goes in a transfer each.

    The tiles lie in columns `n0` to `n0 + total` of what is read and written.
    """

    steps: Sequence[Step]
    parts: Mapping[Access, str]
    source: Source

    @property
    def _moved(self) -> dict[str, Tile]:
        found = (tile_of(step) for step in self.steps if isinstance(step, Load | Store))
        return {tile.name: tile for tile in found}

    def load(self) -> None:
        """Room for all tiles, and the transfers of those that are read."""
        for name, tile in self._moved.items():
            self.source.add(
                f"all_{name} = nl.ndarray((rows, total), dtype=nl.{tile.dtype.value},"
                " buffer=nl.sbuf)"
            )
        for step in self.steps:
            if isinstance(step, Load):
                part = self._part(step)
                self.source.add(f"nisa.dma_copy(dst=all_{step.dst.name}, src={part})")

    def print(self, cols: str, printer: StepPrinter) -> None:
        """The other steps, on one tile: these columns of all."""
        for name, tile in self._moved.items():
            self.source.add(f"{name} = all_{name}[:, {cols}]")
            printer.take(tile)
        for step in self.steps:
            if not isinstance(step, Load | Store):
                printer.print(step, TILE_LEVEL)

    def store(self) -> None:
        """The transfers of those that are written."""
        for step in self.steps:
            if isinstance(step, Store):
                part = self._part(step)
                self.source.add(f"nisa.dma_copy(dst={part}, src=all_{step.src.name})")

    def _part(self, step: Load | Store) -> str:
        return f"{self.parts[step.access]}[:, n0 : n0 + total]"


class BandPrinter:
    """Defines the function that loads one band."""

    def __init__(self, plan: ConvolutionPlan, helpers: Source, prefix: str) -> None:
        """`helpers` takes the functions of the stage, whose names begin with `prefix`."""
        self.plan = plan
        self.helpers = helpers
        self.prefix = prefix
        one = (1,) * len(plan.images)
        point = Span(num_in=one, num_out=one, kernel=1, stride=1, dilation=1, before=0)
        # A sequence is an image of one line.
        missing = 3 - len(plan.spans)
        self.spans = (point,) * missing + plan.spans
        self.stack = (1,) * missing + plan.stack
        self.has_planes = missing == 0

    def _define(self, name: str, given: Sequence[str], body: Source) -> None:
        self.helpers.add()
        self.helpers.add()
        self.helpers.add(f"def {self.prefix}{name}({', '.join(given)}):")
        self.helpers.lines.extend(body.lines)

    def _steps_down(self) -> tuple[int, int]:
        """Lines of the image between neighbours in a band, and of a band between results."""
        span = self.spans[LINES]
        # Whole images are moved in long pieces, every other line is not.
        if self.stack[LINES] == span.kernel and self.plan.planes_each == 1:
            return span.stride, 1
        return 1, span.stride

    def _define_load_band(self) -> None:
        body = Source(depth=1)
        lines = self.spans[LINES]
        step, pace = self._steps_down()
        image = "volume" if self.has_planes else "image"
        what = "several taps side by side" if max(self.stack) > 1 else "zero outside"
        body.add(f'"""What `lines` lines of the result from r0 on read, whole lines; {what}."""')
        halo = (lines.kernel - 1) // self.stack[LINES] * self.stack[LINES] * lines.dilation
        count = plus(scaled("(lines - 1)" if pace > 1 else "lines", pace), str(halo))
        count = plus(count, "1") if pace > 1 else count
        body.add(f"channels = {image}.shape[0]")
        width = "out_width" if self.stack[COLUMNS] > 1 else f"{image}.shape[{2 + self.has_planes}]"
        copies = self.stack[0] * self.stack[1] * self.stack[2]
        parts = "channels" if copies == 1 else f"{copies} * channels"
        body.add(
            f"band = nl.ndarray(({parts}, {count}, {width}), dtype={image}.dtype, buffer=nl.sbuf)"
        )
        body.add(f"top = {plus(scaled('r0', lines.stride), str(-lines.before))}")
        self._zero(body, step)
        loops = 0
        for axis, name in ((PLANES, "p"), (LINES, "k"), (COLUMNS, "j")):
            if self.stack[axis] > 1:
                body.add(f"for {name} in range({self.stack[axis]}):")
                body.depth += 1
                loops += 1
        self._load_copy(body, step)
        body.depth -= loops
        self._return_band(body, f"{count}, {width}", parts=parts)
        given = [image, *(["plane"] if self.has_planes else []), "r0", "lines"]
        given += ["out_width"] if self.stack[COLUMNS] > 1 else []
        self._define("load_band", given, body)

    def _return_band(self, body: Source, shape: str, *, parts: str) -> None:
        """The band, as a sum of two bfloat16 numbers where products take halves."""
        if self.plan.is_split:
            body.add(
                f"halves = nl.ndarray(({parts}, 2, {shape}), dtype=nl.bfloat16, buffer=nl.sbuf)"
            )
            body.add("split(halves, band)")
        # The Vector Engine multiplies whole numbers.
        both = "band, halves" if self.plan.lanes is not None else "halves"
        body.add(f"return {both if self.plan.is_split else 'band'}")

    def _load_copy(self, body: Source, step: int) -> None:
        """One copy of the input, moved by its tap, onto its partitions."""
        _, lines, columns = self.spans
        index = "0"
        for axis, name in ((PLANES, "p"), (LINES, "k"), (COLUMNS, "j")):
            if self.stack[axis] > 1:
                scaled_index = scaled(index if " " not in index else f"({index})", self.stack[axis])
                index = plus(scaled_index, name)
        dst = "band"
        if index != "0":
            body.add(f"first = {times(index if ' ' not in index else f'({index})', 'channels')}")
            dst = "band[first : first + channels]"
        top = plus("top", scaled("k" if self.stack[LINES] > 1 else "0", lines.dilation))
        left = "0"
        if self.stack[COLUMNS] > 1:
            left = plus(scaled("j", columns.dilation), str(-columns.before))
        src = "image"
        if self.has_planes:
            depth = self.spans[PLANES].dilation
            at = plus("plane", scaled("p" if self.stack[PLANES] > 1 else "0", depth))
            src = f"volume[:, {at}]"
            if not is_inside(self.spans[PLANES]):
                body.add(f"if 0 <= {at} < volume.shape[1]:")
                body.depth += 1
        body.add(f"load_moved({dst}, {src}, {top}, {left}, {step})")
        if self.has_planes and not is_inside(self.spans[PLANES]):
            body.depth -= 1

    def _idle(self) -> str:
        """The engine that makes zeros: where GpSimd halves bands, their loads would wait for it."""
        halves = self.plan.is_split and self.plan.lanes is None
        return f", engine=nisa.engine.{'vector' if halves else 'gpsimd'}"

    def _zero(self, body: Source, step: int) -> None:
        """Zeros where a copy has nothing to load."""
        planes, lines, columns = self.spans
        zero_all = f"nisa.memset(dst=band, value=0.0{self._idle()})"
        if self.stack[COLUMNS] > 1 and not is_inside(columns):
            body.add(zero_all)
            return
        is_open = not is_inside(lines)
        if self.has_planes and not is_inside(planes):
            last = plus("plane", str((self.stack[PLANES] - 1) * planes.dilation))
            with body.block(f"if plane < 0 or {last} >= volume.shape[1]:"):
                body.add(zero_all)
            if is_open:
                with body.block("else:"):
                    self._zero_lines(body, step)
        elif is_open:
            self._zero_lines(body, step)

    def _zero_lines(self, body: Source, step: int) -> None:
        span = self.spans[LINES]
        height = "volume.shape[2]" if self.has_planes else "image.shape[1]"
        count = "band.shape[1]"
        last = plus("top", str((self.stack[LINES] - 1) * span.dilation))
        body.add(f"above, _ = inside(top, {step}, {count}, {height})")
        body.add(f"_, below = inside({last}, {step}, {count}, {height})")
        with body.block("if above > 0:"):
            body.add(f"nisa.memset(dst=band[:, :above, :], value=0.0{self._idle()})")
        with body.block(f"if below < {count}:"):
            body.add(f"nisa.memset(dst=band[:, below:, :], value=0.0{self._idle()})")
