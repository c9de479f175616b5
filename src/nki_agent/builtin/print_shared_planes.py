"""Prints a convolution of volumes whose products make lines of neighbouring planes at once.

Law: planes of the result that are neighbours read most planes of the input together, as lines do.
Line q * n + r of plane z * m + p lies on the partitions from (p * n + r) * pitch on.
"""

from __future__ import annotations

from nki_agent.builtin.plan import ConvolutionPlan
from nki_agent.builtin.print_shared_lines import SharedLinesPrinter
from nki_agent.builtin.regions import Window
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Store
from nki_agent.builtin.window_text import COLUMNS, PLANES, plus, share_lines


class SharedPlanesPrinter(SharedLinesPrinter):
    """Prints one ConvolutionPlan with lines of more than one plane in each product."""

    def __init__(
        self, plan: ConvolutionPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the functions of the stage, whose names begin with `prefix`."""
        super().__init__(plan, source, scope, helpers=helpers, prefix=prefix)
        self.planes = plan.planes_each
        self.plane_kernel = self.spans[PLANES].kernel
        planes, lines, columns = self.spans
        self.spans = (share_lines(planes, self.planes), lines, columns)

    def _sizes(self) -> None:
        super()._sizes()
        self.source.note(f"So do these lines of {self.planes} planes.")
        self.source.add(f"plane_groups = (out_planes + {self.planes - 1}) // {self.planes}")

    def _plane_steps(self) -> str:
        return "plane_groups"

    def _image(self) -> None:
        self.source.add(f"planes = min({self.planes}, out_planes - z * {self.planes})")
        self.source.add(f"first_pixel = z * {self.planes} * out_lines * out_width")
        self.source.add("pixels = planes * out_lines * out_width")
        super()._image()

    def _after_lines(self) -> list[str]:
        return [*super()._after_lines(), "planes"]

    def _part_window(self, first: str, lines: str) -> Window:
        del first, lines  # Whole planes.
        return Window(start="first_pixel", count="pixels")

    def _store_in_order(self, step: Store, body: Source) -> None:
        add, tile, each = body.add, step.src, self.each
        part = self.parts[step.access]
        # Of few partitions only as few DMA engines would store.
        body.note("On other partitions than the tile before: other DMA engines store it.")
        add(f"spot = (turn * num_tiles + q0 // tile_lines) % {self.sharing} * {self.pitch}")
        add(
            f"{tile.name}_all = nl.ndarray(({self.sharing * self.pitch}, planes, num_lines, width),"
            f" dtype=nl.{tile.dtype.value}, buffer=nl.sbuf)"
        )
        add(f"{tile.name}_lines = {tile.name}_all[spot : spot + outs]")
        body.note("The lines of each plane in order; two engines share the copies.")
        shaped = f"{tile.name}.reshape((rows, count, width))"
        lines = body.block(f"for r in range(min({each}, num_lines)):")
        with body.block("for p in range(planes):"), lines:
            add(f"part = {tile.name}_lines[:, p, r::{each}, :]")
            add(f"first = (p * {each} + r) * {self.pitch}")
            add(f"own = {shaped}[first : first + outs, : part.shape[1], :]")
            with body.block("if r % 2:"):
                add("nisa.activation(dst=part, op=nl.copy, data=own)")
            with body.block("else:"):
                add("nisa.tensor_copy(dst=part, src=own)")
        add(f"planes_part = {part}.reshape_dim(1, (planes, out_lines * width))")
        add(
            "nisa.dma_copy(dst=planes_part[:, :, n0 : n0 + num_lines * width],"
            f" src={tile.name}_lines.reshape((outs, planes, num_lines * width)))"
        )

    def _first_taps(self) -> tuple[str, str]:
        plane = f"({plus(self._tap('p'), str(self.planes - 1))} - r // {self.each})"
        return plane, f"({plus(self._tap('k'), str(self.each - 1))} - r % {self.each})"

    def _widen(self, body: Source) -> tuple[int, int]:
        add, shift, beside = body.add, self.each - 1, self.planes - 1
        wide = self.spans[COLUMNS].kernel
        taps, kernel = self.line_kernel * wide, self.plane_kernel
        planes, all_taps = kernel + 2 * beside, (self.line_kernel + 2 * shift) * wide
        shape = f"(outs, depth, {kernel}, {taps})"
        add(f"tile = nl.ndarray({shape}, dtype=weight.dtype, buffer=nl.sbuf)")
        add("nisa.dma_copy(dst=tile, src=weight)")
        body.note("Zeros on all sides, for lines and planes of a group that do not reach a tap.")
        shape = f"(outs, depth, {planes}, {all_taps})"
        add(f"wide = nl.ndarray({shape}, dtype=weight.dtype, buffer=nl.sbuf)")
        add("nisa.memset(dst=wide, value=0.0)")
        with body.block(f"for p in range({kernel}):"):
            first = shift * wide
            add(
                f"nisa.tensor_copy(dst=wide[:, :, {plus('p', str(beside))},"
                f" {first} : {first + taps}], src=tile[:, :, p])"
            )
        return planes, all_taps
