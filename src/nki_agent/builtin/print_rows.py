"""Prints a pass over rows."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import groupby

from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.packed_rows import takes_rows
from nki_agent.builtin.phases import CHOSEN, Phases, looked_up
from nki_agent.builtin.plan import RowsPlan, Total
from nki_agent.builtin.print_steps import StepPrinter, layout_of, signed, step_of, tile_of
from nki_agent.builtin.regions import Axis, Regions, Window, access_pattern, times
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import (
    Access,
    Copies,
    Copy,
    Kind,
    Load,
    Step,
    Store,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.isa.dtype import DType

OUTER_NAMES = ("i", "j", "k", "m")
TIME = "time"
"""The step of a loop over time, which a stage of that loop is given."""
FLAT_HELPER = '''def flat_tiles(num_elems):
    """(start, rows, cols) of the tiles that cover a flat tensor, the rest last."""
    width = num_elems // PARTITIONS
    tiles = []
    for start in range(0, width, COL_BLOCK):
        tiles.append((start, PARTITIONS, min(COL_BLOCK, width - start)))
    if num_elems % PARTITIONS:
        tiles.append((width * PARTITIONS, 1, num_elems % PARTITIONS))
    return tiles
'''


PACKED_HELPER = '''def row_blocks(num_rows, rows_each):
    """(start, partitions, rows in each partition) of the blocks that cover all rows."""
    blocks = []
    for start in range(0, num_rows, PARTITIONS * rows_each):
        left = min(PARTITIONS * rows_each, num_rows - start)
        each = left // PARTITIONS
        if each:
            blocks.append((start, PARTITIONS, each))
        if left % PARTITIONS:
            blocks.append((start + PARTITIONS * each, left % PARTITIONS, 1))
    return blocks
'''


class RowsPrinter:
    """Prints one RowsPlan into a function body."""

    def __init__(
        self, plan: RowsPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the functions of phases, whose names begin with `prefix`."""
        self.plan = plan
        self.source = source
        self.scope = scope
        self.helpers = helpers
        self.prefix = prefix
        self.phases: Phases | None = None
        self.row_level = len(plan.outer) + 1 if plan.passes else len(plan.levels) - 1
        self.row_level -= plan.total is not None
        self.step_level = self.row_level
        """The loop that knows how many rows its tiles have."""
        self.has_col_loop = plan.col_block is not None and not (plan.is_flat or plan.passes)
        names = (TIME, *OUTER_NAMES) if plan.is_step else OUTER_NAMES
        self.outer = names[: len(plan.outer)]
        cols = "cols" if plan.col_block is not None else "num_cols"
        self.is_packed = plan.rows_each is not None
        self.steps = StepPrinter(
            source,
            scope,
            row_level=self.step_level,
            cols=cols,
            vector_cols="c0 : c0 + cols" if plan.passes else "",
            is_packed=self.is_packed,
        )
        self.steps.position = self._position
        self.steps.is_periodic = plan.period is not None
        self.lanes = "PARTITIONS" if plan.period is None else "lanes"
        self.kept_rows: dict[Access, str] = {}
        self.loaded: set[Access] = set()

    def print(self) -> None:
        """The whole pass."""
        self._sizes()
        self._make_views()
        if self.plan.cuts:
            # A number that follows from other sizes than a phase knows keeps the steps together.
            with contextlib.suppress(UnsupportedError):
                self.phases = self._make_phases()
        is_whole = self.plan.total is None
        if self.phases is not None and is_whole:
            self.phases.open(self.source)
        self._level(0)
        if self.phases is not None and is_whole:
            self.phases.drain(self.source)
        if self.plan.sums:
            self._store_sums()
        for step in self.plan.after:
            column = f"{step.access.tensor}.reshape((PARTITIONS, 1))"
            self.source.add(f"nisa.dma_copy(dst={column}, src={step.src.name})")

    def _make_phases(self) -> Phases:
        cols = self.steps.cols
        names = {cols: self.plan.cols} if cols == "num_cols" else {}
        phases = Phases(
            self.plan.levels[-1],
            self.plan.cuts,
            row_level=len(self.plan.levels) - 1,
            prefix=self.prefix,
            is_packed=self.is_packed,
            has_own_rows=self.step_level != self.row_level,
        )
        printer = StepPrinter(
            Source(),
            Scope({}, names),
            row_level=self.step_level,
            cols=cols,
            is_packed=self.is_packed,
        )
        if self.plan.total is not None:
            printer.take(self.plan.total.tile)
            printer.chosen = CHOSEN
        helpers = Source()
        phases.define(helpers, printer)
        self.helpers.lines.extend(helpers.lines)
        return phases

    # -- sizes and views --------------------------------------------------------------------------
    def _sizes(self) -> None:
        add = self.source.add
        for name, size in zip(self.outer, self.plan.outer, strict=True):
            add(f"num_{name} = {self.scope.size(size)}")
            self.scope.names[f"num_{name}"] = size
        if self.plan.is_flat:
            add(f"num_elems = {self.scope.size(self.plan.cols)}")
            add("width = num_elems // PARTITIONS")
            self.scope.names["num_elems"] = self.plan.cols
            return
        if self.plan.period is not None:
            add(f"period = {self.scope.size(self.plan.period)}")
            self.source.note("Rows of one tile: whole periods, whose columns are alike.")
            add("lanes = PARTITIONS // period * period")
        add(f"num_rows = {self.scope.size(self.plan.rows)}")
        add(f"num_cols = {self.scope.from_shapes(self.plan.cols, from_last=True)}")
        self.scope.names["num_cols"] = self.plan.cols
        self.scope.names.setdefault("num_rows", self.plan.rows)
        if self.plan.total is not None and self.plan.total.is_by_products:
            self._make_identity()
        if self.plan.sums:
            self._make_sums()

    def _make_sums(self) -> None:
        """A PSUM bank for the sums down the columns, and what a product adds to one part of it."""
        add, own = self.source.add, self.plan.sums[0]
        sums, marks = own.sums.name, own.marks.name
        several = "" if len(self.plan.sums) == 1 else f"{len(self.plan.sums)} * "
        add(f"num_parts = {several}(-(-num_cols // BANK))")
        self.source.note("Sums down the columns: of each its columns in parts, a partition each.")
        shape = "(num_parts, min(BANK, num_cols))"
        add(f"{sums} = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.psum)")
        dtype = f"nl.{own.marks.dtype.value}"
        shape = "(PARTITIONS, 2 * num_parts - 1)"
        add(f"{marks} = nl.ndarray({shape}, dtype={dtype}, buffer=nl.sbuf)")
        add(f"nisa.memset(dst={marks}, value=0.0)")
        add(f"nisa.memset(dst={marks}[:, num_parts - 1 : num_parts], value=1.0)")
        self.steps.take(own.sums)
        self.steps.take(own.marks)

    def _store_sums(self) -> None:
        add, own = self.source.add, self.plan.sums[0]
        tile = f"{own.sums.name}_tile"
        dtype = f"nl.{own.dtype.value}"
        add(f"{tile} = nl.ndarray({own.sums.name}.shape, dtype={dtype}, buffer=nl.sbuf)")
        add(f"nisa.activation(dst={tile}, op=nl.copy, data={own.sums.name})")
        for number, one in enumerate(self.plan.sums):
            start = ", start=num_parts // 2" if number else ""
            with self.source.block(f"for part, c0 in enumerate(range(0, num_cols, BANK){start}):"):
                add("cols = min(BANK, num_cols - c0)")
                pace = self.regions.paces(one.target.strides)[-1]
                terms = [self.scope.size(one.target.offset)] if any(one.target.offset) else []
                text = access_pattern(
                    one.target.tensor, [["1", "1"], [pace, "cols"]], [*terms, times("c0", pace)]
                )
                add(f"nisa.dma_copy(dst={text}, src={tile}[part : part + 1, :cols])")

    def _make_identity(self) -> None:
        """What adds each row of a tile to the same row of a total."""
        add, shape = self.source.add, "(PARTITIONS, PARTITIONS)"
        add(f"identity = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.sbuf)")
        add("nisa.memset(dst=identity, value=1.0)")
        add(
            "nisa.affine_select(dst=identity, pattern=[[-1, PARTITIONS]], channel_multiplier=1,"
            " on_true_tile=identity, on_false_value=0.0, cmp_op=nl.equal)"
        )

    def _make_views(self) -> None:
        axes = [
            Axis(name=f"num_{name}", size=size)
            for name, size in zip(self.outer, self.plan.outer, strict=True)
        ]
        if not self.plan.is_flat:
            axes.append(Axis(name="num_rows", size=self.plan.rows))
        axes.append(Axis(name="num_cols", size=self.plan.cols))
        self.regions = Regions(self.source, self.scope, axes)
        if self.plan.is_flat:
            return
        for step in self.plan.steps:
            is_sliced = not self.is_packed or tile_of(step).kind in (Kind.VECTOR, Kind.ONE)
            if isinstance(step, Load) and step.lookup is not None:
                continue
            if isinstance(step, Load | Store) and is_sliced and not self._is_periodic(step):
                self.regions.prepare(layout_of(step.access))

    # -- loops ------------------------------------------------------------------------------------
    def _level(self, level: int) -> None:
        if level == self.row_level and self.phases is not None and self.plan.total is None:
            self.phases.call(self.source, self._text_of)
            return
        self._steps(level)
        if level == self.row_level and self.plan.passes:
            self._passes()
            return
        if level == self.row_level and self.plan.total is not None:
            self._total(self.plan.total)
            return
        if level == self.row_level or not any(self.plan.levels[level + 1 :]):
            return
        if self.plan.is_step and level == 0:
            self._level(1)
            return
        if self.plan.has_middle and level + 1 == self.row_level:
            self._middle()
            return
        self._keep_rows(level)
        with self.source.block(self._loop(level)):
            if level + 1 == self.row_level and not (self.plan.is_flat or self.is_packed):
                self.source.add(f"rows = min({self.lanes}, num_rows - r0)")
                if names := self._once_names():
                    self.source.add(f"{', '.join(names)} = kept[r0 // PARTITIONS]")
            elif self.has_col_loop and level + 1 == self.row_level - 1:
                self.source.add("cols = min(COL_BLOCK, num_cols - c0)")
            self._level(level + 1)

    def _make_once(self) -> None:
        """Columns of each tile of rows, before the loops that do not change them."""
        names = self._once_names()
        self.source.note("What depends on the row alone is made once.")
        if names:
            self.source.add("kept = []")
        with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
            self.source.add("rows = min(PARTITIONS, num_rows - r0)")
            for step in self.plan.once:
                self._step(step, self.row_level)
            if names:
                made = names[0] if len(names) == 1 else f"({', '.join(names)})"
                self.source.add(f"kept.append({made})")

    def _once_names(self) -> list[str]:
        """Tiles of `once` that the tiles of a pass read."""
        read = {tile for step in self.plan.levels[-1] for tile in step_reads(step)}
        made = [tile for step in self.plan.once for tile in step_writes(step)]
        return list(dict.fromkeys(tile.name for tile in made if tile in read))

    def _steps(self, level: int) -> None:
        """The steps of one level."""
        steps = self.plan.levels[level]
        if level == self.row_level and self._is_moved():
            moves = [step for step in steps if isinstance(step, Load | Store)]
            src, dst = (self._text_of(step) for step in moves)
            self.source.note("From HBM to HBM: no engine needs to see it.")
            self.source.add(f"nisa.dma_copy(dst={dst}, src={src})")
            return
        for is_apart, run in groupby(steps, lambda step: self.plan.is_apart and takes_rows(step)):
            if is_apart and level == self.row_level:
                self.steps.print_apart(list(run), level)
                continue
            for step in run:
                self._step(step, level)
        if level == 0 and self.plan.once:
            self._make_once()

    def _is_moved(self) -> bool:
        """Whether what a tile loads is stored, perhaps in another dtype, and that is all."""
        plan = self.plan
        match plan.levels[self.row_level]:
            case [Load(dst=tile, lookup=None), Store(src=stored, copies=None)]:
                is_same = tile == stored
            case [Load(dst=tile, lookup=None), Copy() as cast, Store(src=stored, copies=None)]:
                is_same = tile == cast.src and cast.dst == stored
            case _:
                return False
        return is_same and tile.kind is Kind.FULL and not (plan.total or plan.passes or plan.kept)

    def _middle(self) -> None:
        """Tiles of rows that each hold several elements of the axis in the middle."""
        add, name = self.source.add, self.outer[-1]
        with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_rows - r0)")
            with self.source.block(f"for {name}0 in range(0, num_{name}, {self.plan.rows_each}):"):
                add(f"each = min({self.plan.rows_each}, num_{name} - {name}0)")
                self._level(self.row_level)

    def _total(self, total: Total) -> None:
        """What one tile of rows adds up over the innermost loop."""
        add, name = self.source.add, self.outer[-1]
        if total.is_by_products:
            self.source.note("The Tensor Engine, which has time, adds up in PSUM.")
            shape = "(rows, num_cols)"
            add(f"{total.tile.name} = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.psum)")
        if self.phases is not None:
            self.phases.open(self.source)
        with self.source.block(f"for {name} in range(num_{name}):"):
            self._turn("identity[:rows, :rows]")
        if self.phases is not None:
            self.phases.drain(self.source)
        self._store_total(total)

    def _turn(self, chosen: str) -> None:
        """What one turn of the innermost loop adds to a total."""
        level = self.row_level + 1
        if self.phases is not None:
            self.phases.call(self.source, self._text_of, chosen)
            return
        self.steps.chosen = chosen
        for step in self.plan.levels[level]:
            self._step(step, level)

    def _store_total(self, total: Total) -> None:
        add = self.source.add
        result = total.tile.name
        if total.tile.in_psum or total.dtype is not DType.FLOAT32:
            result = f"{total.target.tensor}_tile"
            dtype = f"nl.{total.dtype.value}"
            add(f"{result} = nl.ndarray((rows, num_cols), dtype={dtype}, buffer=nl.sbuf)")
            add(f"nisa.activation(dst={result}, op=nl.copy, data={total.tile.name})")
        text = self._region(total.target, total.tile, is_store=True)
        add(f"nisa.dma_copy(dst={text}, src={result})")

    def _passes(self) -> None:
        """Several passes over the strips of one tile of rows."""
        for number in range(self.plan.passes):
            level = self.row_level + 1 + 2 * number
            with self.source.block("for c0 in range(0, num_cols, COL_BLOCK):"):
                self.source.add("cols = min(COL_BLOCK, num_cols - c0)")
                for step in self.plan.levels[level]:
                    self._step(step, level)
            for step in self.plan.levels[level + 1]:
                self._step(step, level + 1)

    def _keep_rows(self, level: int) -> None:
        """Before the loop over rows: whole rows of what several passes read."""
        if level + 1 != self.row_level or not self.plan.kept:
            return
        loads = [s for s in self.plan.steps if isinstance(s, Load) and s.access in self.plan.kept]
        dtypes = {step.access: step.dst.dtype for step in loads}
        self.kept_rows = {}
        self.source.note("Rows stay in SBUF from the first pass on.")
        for access, dtype in dtypes.items():
            name = f"{access.tensor}_whole"
            count = sum(known.startswith(name) for known in self.kept_rows.values())
            name += f"_{count + 1}" if count else ""
            self.kept_rows[access] = name
            self.source.add(
                f"{name} = nl.ndarray((PARTITIONS, num_cols), dtype=nl.{dtype.value},"
                " buffer=nl.sbuf)"
            )

    def _load_kept(self, step: Load) -> None:
        """A strip of kept rows, which the first pass loads."""
        name, tile = self.kept_rows[step.access], step.dst.name
        self.steps.take(step.dst)
        self.source.add(f"{tile} = {name}[:rows, c0 : c0 + cols]")
        if step.access not in self.loaded:
            self.loaded.add(step.access)
            text = self._region(step.access, step.dst, is_store=False)
            self.source.add(f"nisa.dma_copy(dst={tile}, src={text})")

    def _loop(self, level: int) -> str:
        num_outer = len(self.outer) - (self.plan.total is not None) - self.plan.has_middle
        if level < num_outer:
            name = self.outer[level]
            return f"for {name} in range(num_{name}):"
        if self.plan.is_flat:
            return "for start, rows, cols in flat_tiles(num_elems):"
        if self.is_packed:
            return f"for start, rows, each in row_blocks(num_rows, {self.plan.rows_each}):"
        if self.has_col_loop and level == len(self.outer):
            return "for c0 in range(0, num_cols, COL_BLOCK):"
        return f"for r0 in range(0, num_rows, {self.lanes}):"

    def _step(self, step: Step, level: int) -> None:
        match step:
            case Load() if self._is_periodic(step):
                self._load_period(step)
            case Load() if level > self.row_level and step.access in self.kept_rows:
                self._load_kept(step)
            case Load():
                self.steps.allocate(step.dst)
                text = looked_up(self._text_of(step), step)
                self.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={text})")
            case Store():
                text = self._text_of(step)
                tile = step.src
                src = f"{tile.name}[:1]" if tile.kind in (Kind.VECTOR, Kind.ONE) else tile.name
                if step.copies is not None:
                    self.source.note("One transfer writes all copies.")
                    count = self.scope.size(step.copies.count)
                    src = f"{tile.name}.expand_dim(1).broadcast(1, {count})"
                self.source.add(f"nisa.dma_copy(dst={text}, src={src})")
            case _:
                self.steps.print(step, level)

    def _is_periodic(self, step: Load | Store) -> bool:
        if self.plan.period is None or not isinstance(step, Load):
            return False
        return step.dst.kind is Kind.ROW and step.dst.level < self.row_level

    def _load_period(self, step: Load) -> None:
        """One column for each row of a period, as often as a tile has periods."""
        assert self.plan.period is not None
        self.steps.allocate(step.dst)
        axes = [Axis(name="period", size=self.plan.period), Axis(name="num_cols", size=(1,))]
        regions = Regions(self.source, self.scope, axes)
        layout = replace(layout_of(step.access), strides=step.access.strides[-2:])
        regions.prepare(layout)
        text = regions.text(layout, [Window(count="period"), Window(count="num_cols")])
        with self.source.block("for e in range(0, lanes, period):"):
            self.source.add(f"nisa.dma_copy(dst={step.dst.name}[e : e + period], src={text})")

    # -- HBM regions ------------------------------------------------------------------------------
    def _text_of(self, step: Load | Store) -> str:
        """What a step reads or writes in HBM; of rows that are looked up, their table."""
        if isinstance(step, Store):
            if step.copies is not None:
                return self._flat_region(step.access, step.src, is_store=True, copies=step.copies)
            return self._region(step.access, step.src, is_store=True)
        if step.lookup is None:
            return self._region(step.access, step.dst, is_store=False)
        tensor, shape = step.access.tensor, (step.lookup.rows, step.lookup.cols)
        if tuple(self.scope.shapes[tensor]) == shape:
            return tensor
        rows, cols = (self.scope.from_shapes(size, tensor) for size in shape)
        return f"{tensor}.reshape(({rows}, {cols}))"

    def _region(self, access: Access, tile: Tile, *, is_store: bool) -> str:
        if self.plan.is_flat:
            return self._flat_region(access, tile, is_store=is_store)
        if self.is_packed and tile.kind in (Kind.FULL, Kind.ROW):
            return self._packed_region(access, tile)
        windows = [Window(start=name) for name in self.outer]
        windows.append(Window(start="r0", count="rows"))
        width = "num_cols" if tile.cols is None else self.scope.size(tile.cols)
        windows.append(
            Window(start="c0", count="cols")
            if self.has_col_loop or (self.plan.passes and tile.level > self.row_level)
            else Window(count=width)
        )
        is_spread = tile.kind in (Kind.VECTOR, Kind.ONE) and not is_store
        lanes = "rows" if tile.level >= self.row_level else "PARTITIONS"
        spread = lanes if is_spread else ""
        return self.regions.text(layout_of(access), windows, spread=spread)

    def _position(self, access: Access, tile: Tile) -> tuple[str, str, str]:
        """Whole numbers along the axes, as they are in the current tile."""
        terms = [signed(self.scope, access.offset)] if any(access.offset) else []
        if self.plan.is_flat or self.is_packed:
            names = [*self.outer, "start"]
        else:
            is_cut = self.has_col_loop or (self.plan.passes and tile.level > self.row_level)
            names = [*self.outer, "r0", "c0" if is_cut else ""]
        for loop, stride in zip(names, access.strides, strict=False):
            if any(stride) and loop:
                terms.append(step_of(loop, signed(self.scope, stride)))
        steps = [signed(self.scope, s) if any(s) else "0" for s in access.strides]
        is_whole = self.plan.passes and tile.level < self.row_level
        cols = "num_cols" if is_whole else self.steps.cols
        col = f"[{steps[-1]}, {cols}]" if tile.is_wide else "[1, 1]"
        multiplier = times("width", steps[-1]) if self.plan.is_flat else steps[-2]
        if tile.kind in (Kind.VECTOR, Kind.ONE):
            multiplier = "0"
        elif self.is_packed:
            col = f"[{steps[-2]}, each], {col}"
            multiplier = times("each", steps[-2])
        return f"[{col}]", " + ".join(terms).replace("+ -", "- "), multiplier

    def _packed_region(self, access: Access, tile: Tile) -> str:
        """Rows that follow each other in one partition: one run of memory for each partition."""
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        loops = [*self.outer, "start"]
        if self.plan.has_middle:
            loops = [*self.outer[:-1], f"{self.outer[-1]}0", "r0"]
        steps = self.regions.paces(access.strides)
        for loop, step in zip(loops, steps, strict=False):
            if step != "0":
                terms.append(times(loop, step))
        row, col = steps[-2:]
        width = "num_cols" if tile.cols is None else self.scope.size(tile.cols)
        last = [col, width] if col != "0" else ["1", "1"]
        pattern = [[times("each", row), "rows"], [row, "each"], last]
        if self.plan.has_middle:
            middle = access.strides[-3]
            pattern = [
                [row, "rows"],
                [self.scope.size(middle) if any(middle) else "0", "each"],
                last,
            ]
        return access_pattern(access.tensor, pattern, terms)

    def _flat_region(
        self, access: Access, tile: Tile, *, is_store: bool, copies: Copies | None = None
    ) -> str:
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        steps = self.regions.paces(access.strides)
        for loop, step in zip(self.outer, steps, strict=False):
            if step != "0":
                terms.append(times(loop, step))
        if tile.kind is not Kind.FULL:
            pattern = [["0", "1" if is_store else "PARTITIONS"], ["1", "1"]]
            return access_pattern(access.tensor, pattern, terms)
        pace = steps[-1]
        pattern = [[times("width", pace), "rows"], [pace, "cols"]]
        if copies is not None:
            pattern.insert(1, [self.scope.size(copies.stride), self.scope.size(copies.count)])
        return access_pattern(access.tensor, pattern, [*terms, times("start", pace)])
