"""Prints the columns of blocks: one number for each row, of all blocks of a loop at once.

Law: numbers that lie one after the other come as rows, which are turned; those that lie beside the
same numbers of the innermost loop come for all of that loop in one load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nki_agent.builtin.columns import of_all_blocks
from nki_agent.builtin.print_products import Loops, is_unit
from nki_agent.builtin.print_steps import StepPrinter, layout_of
from nki_agent.builtin.regions import Regions, Window
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import (
    Access,
    Load,
    Size,
    Step,
    Tile,
    step_reads,
    step_writes,
)

LOAD_COLUMNS = '''def load_columns(dst, src):
    """Loads src [N, 1] into dst [128, block of N], turned on the Tensor Engine: long runs."""
    whole, rest = src.shape[0] // PARTITIONS, src.shape[0] % PARTITIONS
    for b0 in range(0, whole, PARTITIONS):
        count = min(PARTITIONS, whole - b0)
        rows = nl.ndarray((count, PARTITIONS), dtype=dst.dtype, buffer=nl.sbuf)
        part = src[b0 * PARTITIONS : (b0 + count) * PARTITIONS, 0]
        nisa.dma_copy(dst=rows, src=part.reshape_dim(0, (count, PARTITIONS)))
        turned = nl.ndarray((PARTITIONS, count), dtype=dst.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=rows)
        nisa.activation(dst=dst[:, b0 : b0 + count], op=nl.copy, data=turned)
    if rest:
        nisa.memset(dst=dst[:, whole:], value=0.0)
        nisa.dma_copy(dst=dst[:rest, whole:], src=src[whole * PARTITIONS :, :])
'''


@dataclass(slots=True)
class ColumnPrinter:
    """The columns of one stage; `rows` names the size of the axis that is cut into blocks."""

    steps: Sequence[Step]
    source: Source
    scope: Scope
    loops: Loops
    rows: tuple[str, Size]
    blocks: str
    """The name of the number of blocks."""
    _level: dict[Tile, int] = field(default_factory=dict)
    """The loop that each is made in."""
    _shared: set[Tile] = field(default_factory=set)
    """Those that the innermost loop has side by side."""

    def __post_init__(self) -> None:
        """Find where each step belongs."""
        for step in self.steps:
            (made,) = step_writes(step)
            if isinstance(step, Load):
                is_shared = _lies_beside(step.access)
                level = _level_of(step.access)
                self._level[made] = level - is_shared
            else:
                is_shared = any(tile in self._shared for tile in step_reads(step))
                self._level[made] = max(self._level[tile] for tile in step_reads(step))
            if is_shared:
                self._shared.add(made)

    def print(self, level: int) -> None:
        """The steps of one loop."""
        for step in self.steps:
            (made,) = step_writes(step)
            if self._level[made] == level:
                self._step(step, is_shared=made in self._shared)

    def part(self, tile: Tile, block: str) -> str:
        """The column of one block."""
        if tile in self._shared:
            name = self.loops.names[-1]
            return f"{tile.name}[:rows, {block}, {name} : {name} + 1]"
        return f"{tile.name}[:rows, {block} : {block} + 1]"

    def _step(self, step: Step, *, is_shared: bool) -> None:
        inner = f"num_{self.loops.names[-1]}" if is_shared else ""
        cols = f"{self.blocks}, {inner}" if is_shared else self.blocks
        printer = StepPrinter(self.source, self.scope, row_level=len(self.loops.batch), cols=cols)
        wide = of_all_blocks(step)
        if not isinstance(wide, Load):
            printer.print(wide, 0)
            return
        printer.allocate(wide.dst)
        access = _beside(wide.access) if is_shared else wide.access
        minor = (inner, self.loops.batch[-1]) if is_shared else ("1", (1,) * len(self.rows[1]))
        regions = Regions(self.source, self.scope, self.loops.axes(self.rows, minor))
        windows = self.loops.windows(Window(count=self.rows[0]), Window(count=minor[0]))
        text = regions.text(layout_of(access), windows)
        if is_shared:
            self.source.note("Of the whole inner loop: its numbers lie side by side.")
            self.source.add(f"nisa.memset(dst={wide.dst.name}, value=0.0)")
            self.source.add(f"load_blocks({wide.dst.name}, {text})")
        else:
            self.source.add(f"load_columns({wide.dst.name}, {text})")


def _lies_beside(access: Access) -> bool:
    """Whether numbers of the innermost loop lie side by side, and those of the rows do not."""
    *batch, row, _ = access.strides
    return bool(batch) and is_unit(batch[-1]) and not is_unit(row)


def _beside(access: Access) -> Access:
    """The same numbers with the innermost loop as columns."""
    *batch, inner, row, col = access.strides
    return Access(
        tensor=access.tensor,
        strides=(*batch, tuple(0 for _ in col), row, inner),
        offset=access.offset,
    )


def _level_of(access: Access) -> int:
    """The innermost loop along which it moves."""
    return max((i + 1 for i, s in enumerate(access.strides[:-2]) if any(s)), default=0)
