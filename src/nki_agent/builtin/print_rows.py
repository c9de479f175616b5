"""Prints a pass over rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from nki_agent.builtin.graph import BITS, UnsupportedError
from nki_agent.builtin.phases import Phases
from nki_agent.builtin.plan import (
    Access,
    Activate,
    AffineSelect,
    Combine,
    Copy,
    CopyWhere,
    Fill,
    Invert,
    Iota,
    Kind,
    Load,
    Operand,
    Reduce,
    RowsPlan,
    Scalar,
    Scale,
    ScaleCombine,
    Size,
    Step,
    Store,
    Tile,
    step_writes,
)
from nki_agent.builtin.regions import Axis, Layout, Regions, Window, access_pattern, times
from nki_agent.builtin.text import Scope, Source
from nki_agent.isa.enums import Engine

OUTER_NAMES = ("i", "j", "k", "m")
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


PositionText = Callable[[Access, Tile], tuple[str, str, str]]
"""The pattern, offset and channel multiplier of whole numbers in the current tile."""


def no_position(access: Access, tile: Tile) -> tuple[str, str, str]:
    """Where a printer's code does not know which rows it is given."""
    raise UnsupportedError(tile.name, f"positions {access.strides} are needed inside a function")


class StepPrinter:
    """Prints steps on tiles of `rows` rows. Shared with the epilogue of products."""

    def __init__(
        self,
        source: Source,
        scope: Scope,
        *,
        row_level: int,
        cols: str,
        vector_cols: str = "",
        is_packed: bool = False,
    ) -> None:
        """`row_level` is the depth of the loop over row tiles; `cols` a wide tile's width there.

        `vector_cols` cuts a whole row, kept for all tiles, down to the columns of one.
        """
        self.source = source
        self.scope = scope
        self.row_level = row_level
        self.cols = cols
        self.vector_cols = vector_cols
        self.is_packed = is_packed
        self.position: PositionText = no_position
        self._made: set[str] = set()
        self._said: set[str] = set()

    def ref(self, tile: Tile, level: int) -> str:
        """A tile as an operand at this level: values of all partitions are cut to the rows."""
        if tile.level < level and level >= self.row_level and tile.kind in (Kind.VECTOR, Kind.ONE):
            cut = f", {self.vector_cols}" if self.vector_cols and tile.is_wide else ""
            return f"{tile.name}[:rows{cut}]"
        return tile.name

    def spread(self, tile: Tile, dst: Tile, level: int) -> str:
        """An operand of a step on wide tiles; it repeats what they share."""
        text = self.ref(tile, level)
        if not self.is_packed:
            return f"{text}.broadcast(1, {self.cols})" if dst.is_wide > tile.is_wide else text
        if dst.kind not in (Kind.FULL, Kind.ROW) or level != self.row_level:
            return text
        match tile.kind:
            case Kind.ROW:
                return f"{text}.broadcast(2, {self.cols})" if dst.is_wide else text
            case Kind.VECTOR:
                return f"{text}.expand_dim(1).broadcast(1, each)"
            case Kind.ONE:
                shared = f"{text}.expand_dim(1).broadcast(1, each)"
                return f"{shared}.broadcast(2, {self.cols})" if dst.is_wide else shared
            case Kind.FULL:
                return text

    def operand(self, operand: Operand, level: int) -> str:
        """A tile or a number."""
        return self.ref(operand, level) if isinstance(operand, Tile) else self.scope.number(operand)

    def shape(self, tile: Tile) -> str:
        """The shape of a tile as text."""
        rows = "PARTITIONS" if tile.kind in (Kind.VECTOR, Kind.ONE) else "rows"
        if self.is_packed and rows == "rows":
            return f"(rows, each, {self.cols if tile.is_wide else '1'})"
        if not tile.is_wide:
            return f"({rows}, 1)"
        is_whole = self.vector_cols and tile.level < self.row_level
        return f"({rows}, {'num_cols' if is_whole else self.cols})"

    def allocate(self, tile: Tile) -> None:
        """`nl.ndarray` for a tile that is written for the first time."""
        if tile.name in self._made or tile.in_psum:
            return
        self._made.add(tile.name)
        dtype = f"nl.{tile.dtype.value}"
        self.source.add(
            f"{tile.name} = nl.ndarray({self.shape(tile)}, dtype={dtype}, buffer=nl.sbuf)"
        )

    def print(self, step: Step, level: int) -> None:
        """One step; loads and stores are the stage's own business."""
        comment = _comment(step)
        if comment and comment not in self._said:
            self._said.add(comment)
            self.source.note(comment)
        for tile in step_writes(step):
            self.allocate(tile)
        self.source.add(self._call(step, level))

    def _call(self, step: Step, level: int) -> str:
        match step:
            case Load() | Store():
                raise AssertionError("printed by the stage")
            case Activate():
                return self._activation(step, level)
            case Scale():
                return self._scalars(step, level)
            case Combine():
                return self._pair(step, level)
            case ScaleCombine():
                return self._scalar_tensor(step, level)
            case Reduce():
                return self._reduction(step, level)
            case CopyWhere():
                return self._copy_where(step, level)
            case Iota() | AffineSelect():
                return self._by_position(step)
            case Fill() | Invert() | Copy():
                return self._simple(step, level)

    def _by_position(self, step: Iota | AffineSelect) -> str:
        pattern, offset, multiplier = self.position(step.access, step.dst)
        walk = f"pattern={pattern}, channel_multiplier={multiplier}"
        end = f", offset={offset}" if offset else ""
        match step:
            case Iota():
                return f"nisa.iota(dst={step.dst.name}, {walk}{end})"
            case AffineSelect():
                return (
                    f"nisa.affine_select(dst={step.dst.name}, {walk},"
                    f" on_true_tile={step.data.name},"
                    f" on_false_value={self.scope.number(step.value)}, cmp_op=nl.{step.op}{end})"
                )

    def _simple(self, step: Fill | Invert | Copy, level: int) -> str:
        match step:
            case Fill():
                value = self.scope.number(step.value)
                return f"nisa.memset(dst={step.dst.name}, value={value}{_engine(step.engine)})"
            case Invert():
                return f"nisa.reciprocal(dst={step.dst.name}, data={self.ref(step.data, level)})"
            case Copy():
                source = self.spread(step.src, step.dst, level)
                return f"nisa.tensor_copy(dst={step.dst.name}, src={source}{_engine(step.engine)})"

    def _pair(self, step: Combine, level: int) -> str:
        first = self.spread(step.first, step.dst, level)
        second = self.spread(step.second, step.dst, level)
        return (
            f"nisa.tensor_tensor(dst={step.dst.name}, data1={first}, data2={second},"
            f" op=nl.{step.op}{_engine(step.engine)})"
        )

    def _copy_where(self, step: CopyWhere, level: int) -> str:
        source = self.operand(step.src, level)
        predicate = self.spread(step.predicate, step.dst, level)
        return (
            f"nisa.tensor_copy_predicated(dst={step.dst.name}, src={source}, predicate={predicate})"
        )

    def _reduction(self, step: Reduce, level: int) -> str:
        negate = ", negate=True" if step.negate else ""
        axis = 2 if self.is_packed else 1
        return (
            f"nisa.tensor_reduce(dst={step.dst.name}, op=nl.{step.op},"
            f" data={self.ref(step.data, level)}, axis={axis}{negate})"
        )

    def _activation(self, step: Activate, level: int) -> str:
        name = "activation" if step.sums is None else "activation_reduce"
        parts = [
            f"dst={step.dst.name}",
            f"op=nl.{step.function}",
            f"data={self.ref(step.data, level)}",
        ]
        if step.sums is not None:
            parts += ["reduce_op=nl.add", f"reduce_res={step.sums.name}"]
        if step.bias is not None:
            parts.append(f"bias={self.operand(step.bias, level)}")
        if step.scale is not None:
            parts.append(f"scale={self.operand(step.scale, level)}")
        return f"nisa.{name}({', '.join(parts)})"

    def _scalars(self, step: Scale, level: int) -> str:
        parts = [f"dst={step.dst.name}", f"data={self.spread(step.data, step.dst, level)}"]
        for index, scalar in enumerate(step.scalars):
            parts.append(f"op{index}=nl.{scalar.op}")
            parts.append(f"operand{index}={self._scalar(scalar, level)}")
            if scalar.reverse:
                parts.append(f"reverse{index}=True")
        return f"nisa.tensor_scalar({', '.join(parts)})"

    def _scalar(self, scalar: Scalar, level: int) -> str:
        operand = scalar.operand
        if scalar.op in BITS and not isinstance(operand, Tile):
            return self.scope.size(tuple(int(n) for n in operand))
        return self.operand(operand, level)

    def _scalar_tensor(self, step: ScaleCombine, level: int) -> str:
        scalar = step.scalar
        parts = [
            f"dst={step.dst.name}",
            f"data={self.spread(step.data, step.dst, level)}",
            f"op0=nl.{scalar.op}",
            f"operand0={self.operand(scalar.operand, level)}",
            f"op1=nl.{step.op}",
            f"operand1={self.spread(step.other, step.dst, level)}",
        ]
        if scalar.reverse:
            parts.append("reverse0=True")
        if step.reverse:
            parts.append("reverse1=True")
        return f"nisa.scalar_tensor_tensor({', '.join(parts)})"


def _engine(engine: Engine | None) -> str:
    return "" if engine is None else f", engine=nisa.engine.{engine.value}"


def _comment(step: Step) -> str:
    match step:
        case Activate(function="sin"):
            return "The table of sin ends at +-pi; the clamp catches the last rounding."
        case Reduce(negate=True):
            return "Negated, so that it is a bias below."
        case Combine(engine=Engine.GPSIMD):
            return "GpSimd takes a share of the Vector Engine's work."
        case Activate(function="copy", dst=dst) if dst.name.startswith("scratch"):
            return "Row sums on the Scalar Engine, which has time; the copy itself is not used."
        case Activate(sums=Tile()):
            return "The Scalar Engine adds up each row on the way."
        case Activate(function="copy"):
            return "On the Scalar Engine, which has time."
        case Copy(dst=dst) if dst.name.startswith("nearest"):
            return "A cast to int32 rounds to the nearest even."
        case _:
            return ""


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
        self.has_col_loop = plan.col_block is not None and not (plan.is_flat or plan.passes)
        self.outer = OUTER_NAMES[: len(plan.outer)]
        cols = "cols" if plan.col_block is not None else "num_cols"
        self.is_packed = plan.rows_each is not None
        self.steps = StepPrinter(
            source,
            scope,
            row_level=self.row_level,
            cols=cols,
            vector_cols="c0 : c0 + cols" if plan.passes else "",
            is_packed=self.is_packed,
        )
        self.steps.position = self._position

    def print(self) -> None:
        """The whole pass."""
        self._sizes()
        self._make_views()
        if self.plan.cuts:
            # A number that follows from other sizes than a phase knows keeps the steps together.
            with contextlib.suppress(UnsupportedError):
                self.phases = self._make_phases()
                self.phases.open(self.source)
        self._level(0)
        if self.phases is not None:
            self.phases.drain(self.source)

    def _make_phases(self) -> Phases:
        cols = self.steps.cols
        names = {cols: self.plan.cols} if cols == "num_cols" else {}
        phases = Phases(
            self.plan.levels[-1],
            self.plan.cuts,
            row_level=self.row_level,
            prefix=self.prefix,
            is_packed=self.is_packed,
        )
        printer = StepPrinter(
            Source(),
            Scope({}, names),
            row_level=self.row_level,
            cols=cols,
            is_packed=self.is_packed,
        )
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
        add(f"num_rows = {self.scope.size(self.plan.rows)}")
        add(f"num_cols = {self.scope.from_shapes(self.plan.cols, from_last=True)}")
        self.scope.names["num_cols"] = self.plan.cols
        self.scope.names.setdefault("num_rows", self.plan.rows)

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
            if isinstance(step, Load | Store) and is_sliced:
                self.regions.prepare(layout_of(step.access))

    # -- loops ------------------------------------------------------------------------------------
    def _level(self, level: int) -> None:
        if level == self.row_level and self.phases is not None:
            self.phases.call(self.source, self._region)
            return
        for step in self.plan.levels[level]:
            self._step(step, level)
        if level == self.row_level and self.plan.passes:
            self._passes()
            return
        if level == self.row_level or not any(self.plan.levels[level + 1 :]):
            return
        with self.source.block(self._loop(level)):
            if level + 1 == self.row_level and not (self.plan.is_flat or self.is_packed):
                self.source.add("rows = min(PARTITIONS, num_rows - r0)")
            elif self.has_col_loop and level + 1 == self.row_level - 1:
                self.source.add("cols = min(COL_BLOCK, num_cols - c0)")
            self._level(level + 1)

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

    def _loop(self, level: int) -> str:
        if level < len(self.outer):
            name = self.outer[level]
            return f"for {name} in range(num_{name}):"
        if self.plan.is_flat:
            return "for start, rows, cols in flat_tiles(num_elems):"
        if self.is_packed:
            return f"for start, rows, each in row_blocks(num_rows, {self.plan.rows_each}):"
        if self.has_col_loop and level == len(self.outer):
            return "for c0 in range(0, num_cols, COL_BLOCK):"
        return "for r0 in range(0, num_rows, PARTITIONS):"

    def _step(self, step: Step, level: int) -> None:
        match step:
            case Load():
                self.steps.allocate(step.dst)
                text = self._region(step.access, step.dst, is_store=False)
                self.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={text})")
            case Store():
                text = self._region(step.access, step.src, is_store=True)
                tile = step.src
                src = f"{tile.name}[:1]" if tile.kind in (Kind.VECTOR, Kind.ONE) else tile.name
                self.source.add(f"nisa.dma_copy(dst={text}, src={src})")
            case _:
                self.steps.print(step, level)

    # -- HBM regions ------------------------------------------------------------------------------
    def _region(self, access: Access, tile: Tile, *, is_store: bool) -> str:
        if self.plan.is_flat:
            return self._flat_region(access, tile, is_store=is_store)
        if self.is_packed and tile.kind in (Kind.FULL, Kind.ROW):
            return self._packed_region(access)
        windows = [Window(start=name) for name in self.outer]
        windows.append(Window(start="r0", count="rows"))
        windows.append(
            Window(start="c0", count="cols")
            if self.has_col_loop or (self.plan.passes and tile.level > self.row_level)
            else Window(count="num_cols")
        )
        is_spread = tile.kind in (Kind.VECTOR, Kind.ONE) and not is_store
        spread = "PARTITIONS" if is_spread else ""
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
                terms.append(times(loop, signed(self.scope, stride)))
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

    def _packed_region(self, access: Access) -> str:
        """Rows that follow each other in one partition: one run of memory for each partition."""
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        for loop, stride in zip([*self.outer, "start"], access.strides, strict=False):
            if any(stride):
                terms.append(times(loop, self.scope.size(stride)))
        row, col = (self.scope.size(s) if any(s) else "0" for s in access.strides[-2:])
        last = [col, "num_cols"] if col != "0" else ["1", "1"]
        pattern = [[times("each", row), "rows"], [row, "each"], last]
        return access_pattern(access.tensor, pattern, terms)

    def _flat_region(self, access: Access, tile: Tile, *, is_store: bool) -> str:
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        for loop, stride in zip(self.outer, access.strides, strict=False):
            if any(stride):
                terms.append(times(loop, self.scope.size(stride)))
        if tile.kind is not Kind.FULL:
            pattern = [["0", "1" if is_store else "PARTITIONS"], ["1", "1"]]
            return access_pattern(access.tensor, pattern, terms)
        pace = self.scope.size(access.strides[-1])
        pattern = [[times("width", pace), "rows"], [pace, "cols"]]
        return access_pattern(access.tensor, pattern, [*terms, times("start", pace)])


def signed(scope: Scope, size: Size) -> str:
    """A size that may be negative."""
    if all(n <= 0 for n in size) and any(size):
        text = scope.size(tuple(-n for n in size))
        return f"-({text})" if " " in text else f"-{text}"
    return scope.size(size)


def tile_of(step: Step) -> Tile:
    """The tile that a step writes; for a store, the one that it reads."""
    return step.src if isinstance(step, Store) else step_writes(step)[0]


def layout_of(access: Access) -> Layout:
    """An access as a layout."""
    return Layout(tensor=access.tensor, strides=access.strides, offset=access.offset)
