"""Prints reductions along an axis that lies far apart in memory."""

from __future__ import annotations

from nki_agent.builtin.lanes import IDENTITY
from nki_agent.builtin.plan import FoldPlan
from nki_agent.builtin.print_products import Loops
from nki_agent.builtin.print_steps import layout_of
from nki_agent.builtin.regions import Axis, Layout, Regions, Window
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Size
from nki_agent.isa.dtype import DType

COLS = 2048
"""Columns of one tile: half of the PSUM banks, so that the next sums may begin."""


class FoldPrinter:
    """Prints one FoldPlan into a function body."""

    def __init__(self, plan: FoldPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        batch = plan.batch if plan.rows is None else (*plan.batch, plan.far)
        self.loops = Loops(batch, source, scope)
        self.dtype = f"nl.{plan.dtype.value}"
        self.out_dtype = f"nl.{plan.out_dtype.value}"

    def print(self) -> None:
        """The whole reduction."""
        plan = self.plan
        read = plan.source.tensor
        rows = plan.far if plan.rows is None else plan.rows
        self.loops.name_sizes(read, num_rows=(rows, read), num_cols=(plan.cols, f"-{read}"))
        self.source.add(f"col_block = {COLS}")
        self._prepare(rows)
        if plan.rows is None and plan.function == "add":
            self.source.add(
                f"ones = nl.ndarray((PARTITIONS, 1), dtype={self.dtype}, buffer=nl.sbuf)"
            )
            self.source.add("nisa.memset(dst=ones, value=1.0)")
        self._batch(0)

    def _prepare(self, rows: Size) -> None:
        plan = self.plan
        axes = self.loops.axes(("num_rows", rows), ("num_cols", plan.cols))
        self.read = Regions(self.source, self.scope, axes)
        self.read.prepare(layout_of(plan.source))
        self.write = Regions(self.source, self.scope, axes)
        self.target = layout_of(plan.target)
        if self._is_turned:
            # What is left of each column lies in a partition of its own.
            *batch, _, col = plan.target.strides
            one = (1,) * len(col)
            none = (0,) * len(col)
            self.target = Layout(
                tensor=plan.target.tensor, strides=(*batch, col, none), offset=plan.target.offset
            )
            swapped = [*axes[:-2], axes[-1], Axis(name="1", size=one)]
            self.write = Regions(self.source, self.scope, swapped)
        self.write.prepare(self.target)

    @property
    def _is_turned(self) -> bool:
        return self.plan.rows is None and self.plan.function != "add"

    def _batch(self, level: int) -> None:
        if level < len(self.plan.batch):
            with self.loops.loop(level):
                self._batch(level + 1)
        elif self.plan.rows is not None:
            self._by_rows()
        elif self.plan.function == "add":
            self._summed()
        else:
            self._by_lanes()

    def _tile(self, name: str, shape: str, dtype: str, *, memory: str = "sbuf") -> None:
        self.source.add(f"{name} = nl.ndarray({shape}, dtype={dtype}, buffer=nl.{memory})")

    def _load(self, name: str) -> None:
        self._tile(name, "(rows, cols)", self.dtype)
        windows = self.loops.windows(
            Window(start="r0", count="rows"), Window(start="c0", count="cols")
        )
        text = self.read.text(layout_of(self.plan.source), windows)
        self.source.add(f"nisa.dma_copy(dst={name}, src={text})")

    def _store(self, tile: str, row: Window, col: Window) -> None:
        text = self.write.text(self.target, self.loops.windows(row, col))
        self.source.add(f"nisa.dma_copy(dst={text}, src={tile})")

    # -- rows on the partitions -------------------------------------------------------------------
    def _by_rows(self) -> None:
        add, block = self.source.add, self.source.block
        op = self.plan.function
        with (
            block("for r0 in range(0, num_rows, PARTITIONS):"),
            block("for c0 in range(0, num_cols, col_block):"),
        ):
            add("rows = min(PARTITIONS, num_rows - r0)")
            add("cols = min(col_block, num_cols - c0)")
            self._tile("so_far", "(rows, cols)", "nl.float32")
            add(f"nisa.memset(dst=so_far, value={IDENTITY[op]!r}, engine=nisa.engine.gpsimd)")
            with self.loops.loop(len(self.plan.batch)):
                self._load("tile")
                add(f"nisa.tensor_tensor(dst=so_far, data1=so_far, data2=tile, op=nl.{op})")
            name = "so_far"
            if self.plan.out_dtype is not DType.FLOAT32:
                name = "result"
                self._tile(name, "(rows, cols)", self.out_dtype)
                add("nisa.activation(dst=result, op=nl.copy, data=so_far)")
            windows = self.loops.windows(
                Window(start="r0", count="rows"), Window(start="c0", count="cols")
            )
            add(f"nisa.dma_copy(dst={self.write.text(self.target, windows)}, src={name})")

    # -- the reduced axis on the partitions -------------------------------------------------------
    def _summed(self) -> None:
        add, block = self.source.add, self.source.block
        with block("for c0 in range(0, num_cols, col_block):"):
            add("cols = min(col_block, num_cols - c0)")
            self.source.note("A product with ones adds up the partitions, a bank for each block.")
            add("sums = []")
            with block("for n0 in range(0, cols, BANK):"):
                add("width = min(BANK, cols - n0)")
                add("sums.append(nl.ndarray((1, width), dtype=nl.float32, buffer=nl.psum))")
            with block("for r0 in range(0, num_rows, PARTITIONS):"):
                add("rows = min(PARTITIONS, num_rows - r0)")
                self._load("tile")
                with block("for b in range(len(sums)):"):
                    add("n0 = b * BANK")
                    add("moving = tile[:, n0 : n0 + sums[b].shape[1]]")
                    add(
                        "nisa.nc_matmul(dst=sums[b], stationary=ones[:rows, :], moving=moving,"
                        " is_stationary_onezero=True)"
                    )
            self._tile("result", "(1, cols)", self.out_dtype)
            with block("for b in range(len(sums)):"):
                add("n0 = b * BANK")
                add("nisa.tensor_copy(dst=result[:, n0 : n0 + sums[b].shape[1]], src=sums[b])")
            self._store("result", Window(count="1"), Window(start="c0", count="cols"))

    def _by_lanes(self) -> None:
        add, block = self.source.add, self.source.block
        op = self.plan.function
        with block("for c0 in range(0, num_cols, col_block):"):
            add("cols = min(col_block, num_cols - c0)")
            self._tile("so_far", "(PARTITIONS, cols)", "nl.float32")
            add(f"nisa.memset(dst=so_far, value={IDENTITY[op]!r}, engine=nisa.engine.gpsimd)")
            with block("for r0 in range(0, num_rows, PARTITIONS):"):
                add("rows = min(PARTITIONS, num_rows - r0)")
                self._load("tile")
                add(
                    "nisa.tensor_tensor("
                    f"dst=so_far[:rows, :], data1=so_far[:rows, :], data2=tile, op=nl.{op})"
                )
            self.source.note("The columns are turned, so that their partitions meet in one.")
            with block("for n0 in range(0, cols, PARTITIONS):"):
                add("size = min(PARTITIONS, cols - n0)")
                self._tile("turned", "(size, PARTITIONS)", "nl.float32", memory="psum")
                add("nisa.nc_transpose(dst=turned, data=so_far[:, n0 : n0 + size])")
                self._tile("result", "(size, 1)", self.out_dtype)
                add(f"nisa.tensor_reduce(dst=result, op=nl.{op}, data=turned, axis=1)")
                self._store("result", Window(start="c0 + n0", count="size"), Window(count="1"))
