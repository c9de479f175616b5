"""Prints a product with its epilogue.

Where w stays in SBUF, the rows of the next tile are loaded and turned before this tile is
multiplied, so that the Tensor Engine does not wait for them.
"""

from __future__ import annotations

import contextlib

from nki_agent.builtin.plan import MatmulPlan
from nki_agent.builtin.print_products import (
    Loops,
    call_loader,
    in_runs,
    is_w_turned,
    is_x_ready,
    swap_axes,
)
from nki_agent.builtin.print_steps import StepPrinter, layout_of, tile_of
from nki_agent.builtin.regions import Regions, Window
from nki_agent.builtin.text import PartScope, Scope, Source
from nki_agent.builtin.tile_steps import Access, Kind, Load, Number, Size, Step, Store, Tile

Extent = tuple[str, Size]

ONE_BLOCK, TWO_BLOCKS = "[:size, k,", "[:, k : k + 2,"
"""How one block of the depth, or two whole ones, are cut out of an operand."""


class MatmulPrinter:
    """Prints one MatmulPlan into a function body."""

    def __init__(
        self, plan: MatmulPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the function that multiplies one tile; its name begins with `prefix`."""
        self.plan = plan
        self.source = source
        self.scope = scope
        self.helpers = helpers
        self.prefix = prefix
        self.multiply = f"{prefix}multiply"
        self.loops = Loops(plan.batch, source, scope, is_step=plan.is_step)
        self.last = len(plan.batch) + 1
        self.dtype = "nl.bfloat16" if plan.is_split else f"nl.{plan.dtype.value}"
        self.loader = "load_runs" if in_runs(plan) else "load_blocks"
        self.version = "_split" if plan.is_split else ""
        self.halves = "2, " if plan.is_split else ""
        self.every = ":, " if plan.is_split else ""
        """How both halves of an operand are named in front of its blocks of K."""
        self.x = swap_axes(plan.x) if is_x_ready(plan) else plan.x
        self.w = swap_axes(plan.w) if is_w_turned(plan) else plan.w
        twin = plan.twin
        self.x_2 = None if twin is None or twin.x is None else twin.x
        self.w_2 = None if twin is None or twin.w is None else twin.w
        """Those of another product beside this one."""
        self.has_column = twin is not None and twin.is_column
        self.w_level = max((i + 1 for i, s in enumerate(plan.w.strides[:-2]) if any(s)), default=0)
        self.width = "BANK" if plan.is_bank_wide else "col_group"
        is_deep = plan.depth_group is not None
        self.depth = Window(start="d0", count="span") if is_deep else Window(count="depth")
        self.parts = self._name_parts()
        stored = [s.access for s in plan.levels[self.last] if isinstance(s, Store)]
        self.mirrors = {a: f"{a.tensor}_mirror" for a in stored if plan.is_mirrored}
        self.factors: dict[str, Number] = {}

    def _name_parts(self) -> dict[Access, str]:
        """Names for the parts of tensors that the epilogue of one tile reads and writes."""
        names: dict[Access, str] = {}
        for step in self.plan.levels[self.last]:
            if isinstance(step, Load | Store) and step.access not in names:
                count = sum(n.startswith(f"{step.access.tensor}_part") for n in names.values())
                suffix = f"_{count + 1}" if count else ""
                names[step.access] = f"{step.access.tensor}_part{suffix}"
        return names

    def print(self) -> None:
        """The whole product."""
        plan, add = self.plan, self.source.add
        if plan.keep_w:
            self._define_multiply()
        x, w = plan.x.tensor, plan.w.tensor
        depth_of = x if is_x_ready(plan) else f"-{x}"
        n_of = w if is_w_turned(plan) else f"-{w}"
        self.loops.name_sizes(
            x, num_rows=(plan.m, x), depth=(plan.k, depth_of), num_cols=(plan.n, n_of)
        )
        self._name_blocks()
        m, k, n = ("num_rows", plan.m), ("depth", plan.k), ("num_cols", plan.n)
        self._prepare(m, k, n)
        if plan.keep_w:
            self.source.note("The next rows are turned before these are multiplied.")
            add("ready = []")
        self._level(0)
        if plan.keep_w:
            self._drain()

    def _drain(self) -> None:
        """The last tile."""
        with self.source.block("for block in ready:"):
            self.source.add(f"{self.multiply}(*block)")

    def _name_blocks(self) -> None:
        plan, add = self.plan, self.source.add
        x, w = plan.x.tensor, plan.w.tensor
        if plan.depth_group is None:
            add("k_tiles = (depth + PARTITIONS - 1) // PARTITIONS")
        else:
            add(f"depth_group = {plan.depth_group}  # of {x} and {w} that are in SBUF at a time")
        if not plan.keep_w:
            add(f"row_group = {plan.row_group}  # rows of {x} that each block of {w} serves")
            if not plan.is_bank_wide:
                add(f"col_group = {plan.col_group}")
            if plan.w_banks > 1 and plan.depth_group is None:
                add(f"w_cols = {plan.w_banks} * {self.width}  # of {w} that are loaded at a time")

    def _prepare(self, m: Extent, k: Extent, n: Extent) -> None:
        """Name tensors as they are seen along the axes."""
        plan = self.plan
        x_axes = (k, m) if is_x_ready(plan) else (m, k)
        w_axes = (n, k) if is_w_turned(plan) else (k, n)
        self.xs = [("x_turned", self.x, self._regions(x_axes, self.x))]
        self.ws = [("w_kept", self.w, self._regions(w_axes, self.w))]
        if self.x_2 is not None:
            side = swap_axes(self.x_2) if is_x_ready(plan) else self.x_2
            self.xs.append(("x_turned_2", side, self._regions(x_axes, side)))
        if self.w_2 is not None:
            side = swap_axes(self.w_2) if is_w_turned(plan) else self.w_2
            if self.has_column:
                w_axes = (k, ("1", (1,) * len(plan.n)))
            self.ws.append(("w_kept_2", side, self._regions(w_axes, side)))
        self.out_regions = Regions(self.source, self.scope, self.loops.axes(m, n))
        for steps in (*plan.levels, *self._levels_behind()):
            for step in steps:
                if isinstance(step, Load | Store) and step.access.tensor in self.scope.shapes:
                    self.out_regions.prepare(layout_of(step.access))
        self.steps = StepPrinter(
            self.source,
            self.scope,
            row_level=self.last,
            cols="cols",
            vector_cols="n0 : n0 + cols",
        )

    def _levels_behind(self) -> tuple[tuple[Step, ...], ...]:
        return () if self.plan.tail is None else self.plan.tail.levels

    def _regions(self, minor: tuple[tuple[str, Size], tuple[str, Size]], access: Access) -> Regions:
        regions = Regions(self.source, self.scope, self.loops.axes(*minor))
        regions.prepare(layout_of(access))
        return regions

    def _level(self, level: int) -> None:
        for step in self.plan.levels[level] if level < self.last else ():
            self._step(step, level)
        if self.plan.keep_w and level == self.w_level < len(self.plan.batch):
            self._load_all_w()
        if level < len(self.plan.batch):
            with self.loops.loop(level):
                self._level(level + 1)
            return
        if self.plan.keep_w:
            self._kept()
        elif self.plan.depth_group is not None:
            self._deep()
        else:
            self._streamed()

    # -- operands ---------------------------------------------------------------------------------
    def _load_all_w(self) -> None:
        """What of w stays in SBUF."""
        for name, access, regions in self.ws:
            cols = "1" if name != "w_kept" and self.has_column else "num_cols"
            self._load_w(name, cols, Window(count=cols), (access, regions))

    def _load_w(
        self, name: str, cols: str, window: Window, side: tuple[Access, Regions] | None = None
    ) -> None:
        access, regions = side or self.ws[0][1:]
        self.source.add(
            f"{name} = nl.ndarray((PARTITIONS, {self.halves}k_tiles, {cols}), dtype={self.dtype},"
            " buffer=nl.sbuf)"
        )
        depth = self.depth
        is_turned = is_w_turned(self.plan)
        windows = self.loops.windows(*((window, depth) if is_turned else (depth, window)))
        text = regions.text(layout_of(access), windows)
        self.source.add(
            call_loader(name, text, self.plan.w_each, version=self.version)
            if is_turned
            else f"{self.loader}{self.version}({name}, {text})"
        )

    def _load_x(self, rows: str, start: str = "r0") -> None:
        window, depth = Window(start=start, count=rows), self.depth
        is_ready = is_x_ready(self.plan)
        windows = self.loops.windows(*((depth, window) if is_ready else (window, depth)))
        for name, access, regions in self.xs:
            self.source.add(
                f"{name} = nl.ndarray((PARTITIONS, {self.halves}k_tiles, {rows}),"
                f" dtype={self.dtype}, buffer=nl.sbuf)"
            )
            text = regions.text(layout_of(access), windows)
            self.source.add(
                f"{self.loader}{self.version}({name}, {text})"
                if is_ready
                else call_loader(name, text, self.plan.x_each, version=self.version)
            )

    # -- w in SBUF --------------------------------------------------------------------------------
    def _define_multiply(self) -> None:
        source = Source(depth=1)
        scope = PartScope({}, {"num_cols": self.plan.n, "depth": self.plan.k})
        printer = StepPrinter(
            source, scope, row_level=self.last, cols="cols", vector_cols="n0 : n0 + cols"
        )
        source.add('"""One tile of rows against all columns; what follows leaves PSUM with it."""')
        last = 2 + self.plan.is_split
        source.add(f"rows, num_cols = x_turned.shape[{last}], w_kept.shape[{last}]")
        self._begin_rows(source)
        steps = self.plan.levels[self.last]
        once = [step for step in steps if isinstance(step, Load) and step.dst.kind is Kind.ROW]
        for load in once:
            self._step_in_part(load, printer)
        if self.plan.is_mirrored:
            source.note("Columns before the diagonal are the mirror of those behind it.")
        first = "first" if self.plan.is_mirrored else "0"
        with source.block(f"for n0 in range({first}, num_cols, BANK):"):
            source.add("cols = min(BANK, num_cols - n0)")
            self._multiply_rows(source)
            self._begin_block(source, printer)
            for step in steps:
                if step not in once:
                    self._step_in_part(step, printer)
        self._end_rows(source)
        self._add_multiply(source, scope)

    def _multiply_rows(
        self, source: Source, *, stationary: str = "{x}[:size, k, :]", cols: str = "cols"
    ) -> None:
        """The products of one tile."""
        for product, x, w in self._products():
            is_column = w != "w_kept" and self.has_column
            wide = "n0 : n0 + cols" if cols == "cols" else ":"
            self._accumulate(
                source,
                stationary.format(x=x),
                f"{w}[:size, k, {':' if is_column else wide}]",
                k_tiles=f"x_turned.shape[{1 + self.plan.is_split}]",
                product=product,
                cols="1" if is_column else cols,
            )

    def _add_multiply(self, source: Source, scope: PartScope, *more: str) -> None:
        """The function of these lines; `more` are arguments behind all others."""
        self.factors = scope.given
        given = [*self.parts.values(), *self.mirrors.values(), *self._kept_tiles(), *self.factors]
        self.helpers.add()
        self.helpers.add()
        given += [*(["x_turned", "x_turned_2"] if self.x_2 else ["x_turned"])]
        given += [*(["w_kept", "w_kept_2"] if self.w_2 else ["w_kept"]), "depth", *more]
        given += ["first"] * self.plan.is_mirrored
        self.helpers.add(f"def {self.multiply}({', '.join(given)}):")
        self.helpers.lines.extend(source.lines)

    def _products(self) -> list[tuple[str, str, str]]:
        """What each product of a tile is called, and its operands."""
        twin = self.plan.twin
        if twin is None:
            return [("product", "x_turned", "w_kept")]
        x = "x_turned_2" if self.x_2 else "x_turned"
        w = "w_kept_2" if self.w_2 else "w_kept"
        return [(twin.product.name, x, w), ("product", "x_turned", "w_kept")]

    def _begin_rows(self, source: Source) -> None:
        """Before the columns of a tile of rows."""

    def _begin_block(self, source: Source, printer: StepPrinter) -> None:
        """Before what takes columns out of PSUM."""

    def _end_rows(self, source: Source) -> None:
        """Behind all columns."""

    def _kept_tiles(self) -> list[str]:
        found = [t.name for steps in self.plan.levels[: self.last] for s in steps for t in _made(s)]
        return list(dict.fromkeys(found))

    def _step_in_part(self, step: Step, printer: StepPrinter) -> None:
        if not isinstance(step, Load | Store):
            printer.print(step, self.last)
            return
        tile = tile_of(step)
        cut = "[:, n0 : n0 + cols]" if tile.is_wide else ""
        part = f"{self.parts[step.access]}{cut}"
        if isinstance(step, Load):
            printer.allocate(tile)
            printer.source.add(f"nisa.dma_copy(dst={tile.name}, src={part})")
        else:
            printer.source.add(f"nisa.dma_copy(dst={part}, src={tile.name})")
            if step.access in self.mirrors:
                mirror = f"{self.mirrors[step.access]}[n0 : n0 + cols, :]"
                skip = "max(0, first + rows - n0)"
                printer.source.add(f"store_mirrored({mirror}, {tile.name}, {skip})")

    def _kept(self) -> None:
        if self.plan.is_w_first or self.plan.is_mirrored:
            self._load_w_once("")
        if self.plan.is_mirrored:
            with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
                self.source.add("rows = min(PARTITIONS, num_rows - r0)")
                self._make_ready("r0 : r0 + rows")
            return
        if self.plan.x_each == 1:
            with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
                self.source.add("rows = min(PARTITIONS, num_rows - r0)")
                self._load_x("rows")
                if not self.plan.is_w_first:
                    self._load_w_once("r0")
                self._make_ready()
            return
        add, block = self.source.add, self.source.block
        add(f"row_group = {self.plan.row_group}  # rows of {self.plan.x.tensor} in one load")
        with block("for g0 in range(0, num_rows, row_group):"):
            add("group = min(row_group, num_rows - g0)")
            self._load_x("group", "g0")
            if not self.plan.is_w_first:
                self._load_w_once("g0")
            with block("for r0 in range(g0, g0 + group, PARTITIONS):"):
                add("rows = min(PARTITIONS, g0 + group - r0)")
                self._make_ready("r0 - g0 : r0 - g0 + rows")

    def _load_w_once(self, first: str) -> None:
        """All of w, with the first rows of x or before them."""
        if self.w_level == len(self.plan.batch):
            opening = self.source.block(f"if {first} == 0:") if first else contextlib.nullcontext()
            with opening:
                self.source.note(f"All of {self.plan.w.tensor} stays in SBUF: [K, block of K, N].")
                self._load_all_w()

    def _rows_of_tile(self) -> Window:
        return Window(start="r0", count="rows")

    def _make_ready(self, loaded: str = ":", *more: str) -> None:
        """Multiply the tile before this one, whose operands are there by now.

        `loaded` are the rows of the tile among those of x in SBUF.
        """
        rows, cols = self._rows_of_tile(), Window(count="num_cols")
        windows = self.loops.windows(rows, cols)
        parts = [self.out_regions.text(layout_of(access), windows) for access in self.parts]
        turned = self.loops.windows(Window(count="num_rows"), Window(start="r0", count="rows"))
        parts += [self.out_regions.text(layout_of(access), turned) for access in self.mirrors]
        factors = [self.scope.number(factor) for factor in self.factors.values()]
        operands = [*self._tile_of_x(loaded), *(name for name, *_ in self.ws), "depth", *more]
        operands += ["r0"] * self.plan.is_mirrored
        self._put_off([*parts, *self._kept_tiles(), *factors, *operands])

    def _tile_of_x(self, rows: str) -> list[str]:
        """Rows of x in SBUF, as far as they meet w."""
        seen = "" if self.plan.last_column is None else self._seen("r0")
        cut = "" if (seen, rows) == ("", ":") else f"[:, {self.every}:{seen}, {rows}]"
        return [f"{name}{cut}" for name, *_ in (self.ws if self.plan.is_mirrored else self.xs)]

    def _seen(self, start: str) -> str:
        """Names the blocks of K that a tile of rows meets."""
        last = self.plan.last_column
        if last is None:
            return "k_tiles"
        self.source.note("Behind the diagonal is nothing to add.")
        shift = f" + {self.scope.size(last)}" if any(last) else ""
        self.source.add(
            f"seen = min(k_tiles, ({start} + rows{shift} + PARTITIONS - 1) // PARTITIONS)"
        )
        return "seen"

    def _put_off(self, given: list[str]) -> None:
        """Take what was put off before this tile."""
        self.source.add(f"ready.append(({', '.join(given)}))")
        with self.source.block("if len(ready) > 1:"):
            self.source.add(f"{self.multiply}(*ready.pop(0))")

    # -- w block by block -------------------------------------------------------------------------
    def _streamed(self) -> None:
        add = self.source.add
        with self.source.block("for r0 in range(0, num_rows, row_group):"):
            add("group = min(row_group, num_rows - r0)")
            self._load_x("group")
            if self.plan.is_mirrored:
                self._streamed_half()
                return
            if self.plan.w_banks == 1:
                with self.source.block(f"for n0 in range(0, num_cols, {self.width}):"):
                    add(f"cols = min({self.width}, num_cols - n0)")
                    self._load_w("w_block", "cols", Window(start="n0", count="cols"))
                    self._multiply_group("w_block[:size, k, :]")
                return
            with self.source.block("for w0 in range(0, num_cols, w_cols):"):
                add("wide = min(w_cols, num_cols - w0)")
                self._load_w("w_block", "wide", Window(start="w0", count="wide"))
                with self.source.block(f"for n0 in range(w0, w0 + wide, {self.width}):"):
                    add(f"cols = min({self.width}, w0 + wide - n0)")
                    self._multiply_group("w_block[:size, k, n0 - w0 : n0 - w0 + cols]")

    def _streamed_half(self) -> None:
        """Columns from the diagonal on, for a group of rows."""
        add, block = self.source.add, self.source.block
        with block(f"for w0 in range(r0, num_cols, {self.width}):"):
            add(f"wide = min({self.width}, num_cols - w0)")
            self._load_w("w_block", "wide", Window(start="w0", count="wide"))
            with block("for m0 in range(0, min(group, w0 + wide - r0), PARTITIONS):"):
                add("rows = min(PARTITIONS, group - m0)")
                self.source.note("Columns before the diagonal are the mirror of those behind it.")
                add("n0 = max(w0, r0 + m0)")
                add("cols = w0 + wide - n0")
                moving = "w_block[:size, k, n0 - w0 : n0 - w0 + cols]"
                stationary = "x_turned[:size, k, m0 : m0 + rows]"
                self._accumulate(self.source, stationary, moving, k_tiles="k_tiles")
                for step in self.plan.levels[self.last]:
                    self._step(step, self.last)

    def _multiply_group(self, moving: str) -> None:
        with self.source.block("for m0 in range(0, group, PARTITIONS):"):
            self.source.add("rows = min(PARTITIONS, group - m0)")
            stationary = "x_turned[:size, k, m0 : m0 + rows]"
            self._accumulate(self.source, stationary, moving, k_tiles=self._seen("r0 + m0"))
            for step in self.plan.levels[self.last]:
                self._step(step, self.last)

    # -- parts of the depth -----------------------------------------------------------------------
    def _deep(self) -> None:
        add, block = self.source.add, self.source.block
        with (
            block("for r0 in range(0, num_rows, row_group):"),
            block(f"for n0 in range(0, num_cols, {self.width}):"),
        ):
            add("group = min(row_group, num_rows - r0)")
            add(f"cols = min({self.width}, num_cols - n0)")
            self.source.note("Each tile of rows adds up its parts in a PSUM bank of its own.")
            add("products = []")
            with block("for m0 in range(0, group, PARTITIONS):"):
                add("rows = min(PARTITIONS, group - m0)")
                add("product = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.psum)")
                add("products.append(product)")
            with block("for d0 in range(0, depth, depth_group):"):
                add("span = min(depth_group, depth - d0)")
                add("k_tiles = (span + PARTITIONS - 1) // PARTITIONS")
                self._load_x("group")
                self._load_w("w_block", "cols", Window(start="n0", count="cols"))
                with block("for m0 in range(0, group, PARTITIONS):"):
                    add("product = products[m0 // PARTITIONS]")
                    add("rows = min(PARTITIONS, group - m0)")
                    self._add_up(
                        self.source,
                        "x_turned[:size, k, m0 : m0 + rows]",
                        "w_block[:size, k, :]",
                        k_tiles="k_tiles",
                        depth="span",
                    )
            with block("for m0 in range(0, group, PARTITIONS):"):
                add("product = products[m0 // PARTITIONS]")
                add("rows = min(PARTITIONS, group - m0)")
                for step in self.plan.levels[self.last]:
                    self._step(step, self.last)

    def _accumulate(
        self,
        source: Source,
        stationary: str,
        moving: str,
        *,
        k_tiles: str,
        product: str = "product",
        cols: str = "cols",
    ) -> None:
        source.add(f"{product} = nl.ndarray((rows, {cols}), dtype=nl.float32, buffer=nl.psum)")
        self._add_up(source, stationary, moving, k_tiles=k_tiles, depth="depth", product=product)

    def _add_up(
        self,
        source: Source,
        stationary: str,
        moving: str,
        *,
        k_tiles: str,
        depth: str,
        product: str = "product",
    ) -> None:
        first = ""
        if self.plan.has_double_rows:
            source.note("Two blocks of K at a time in fp8.")
            source.add(f"pairs = {depth} // (2 * PARTITIONS)")
            both = [t.replace(ONE_BLOCK, TWO_BLOCKS) for t in (stationary, moving)]
            with source.block("for k in range(0, 2 * pairs, 2):"):
                source.add(
                    f"nisa.nc_matmul(dst={product}, stationary={both[0]}, moving={both[1]},"
                    " perf_mode=nisa.matmul_perf_mode.double_row)"
                )
            first = "2 * pairs, "
        with source.block(f"for k in range({first}{k_tiles}):"):
            source.add(f"size = min(PARTITIONS, {depth} - k * PARTITIONS)")
            if not self.plan.is_split:
                source.add(
                    f"nisa.nc_matmul(dst={product}, stationary={stationary}, moving={moving})"
                )
                return
            source.note("The product of both second parts is too small to count.")
            x, w = (
                text.replace("[:size, ", f"[:size, {part}, ")
                for text, part in ((stationary, "x_half"), (moving, "w_half"))
            )
            with source.block("for x_half, w_half in ((0, 0), (0, 1), (1, 0)):"):
                source.add(f"nisa.nc_matmul(dst={product}, stationary={x}, moving={w})")

    def _step(self, step: Step, level: int) -> None:
        match step:
            case Load():
                self.steps.allocate(step.dst)
                text = self._region(step.access, step.dst, level, is_store=False)
                self.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={text})")
            case Store():
                text = self._region(step.access, step.src, level, is_store=True)
                self.source.add(f"nisa.dma_copy(dst={text}, src={step.src.name})")
                if step.access in self.mirrors:
                    self._store_mirrored(step)
            case _:
                self.steps.print(step, level)

    def _store_mirrored(self, step: Store) -> None:
        """The columns behind the diagonal as rows."""
        rows = self.loops.windows(
            Window(start="n0", count="cols"), Window(start="r0 + m0", count="rows")
        )
        text = self.out_regions.text(layout_of(step.access), rows)
        skip = "max(0, r0 + m0 + rows - n0)"
        self.source.add(f"store_mirrored({text}, {step.src.name}, {skip})")

    def _region(self, access: Access, tile: Tile, level: int, *, is_store: bool) -> str:
        row = Window(start="r0 + m0", count="rows")
        col = Window(start="n0", count="cols")
        if level < self.last:
            row, col = Window(count="num_rows"), Window(count="num_cols")
        is_spread = tile.kind in (Kind.VECTOR, Kind.ONE) and not is_store
        spread = "PARTITIONS" if is_spread else ""
        return self.out_regions.text(layout_of(access), self.loops.windows(row, col), spread=spread)


def _made(step: Step) -> tuple[Tile, ...]:
    return () if isinstance(step, Store) else (tile_of(step),)
