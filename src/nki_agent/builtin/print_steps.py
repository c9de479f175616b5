"""Prints the steps on tiles of a stage, one instruction for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from nki_agent.builtin.graph import BITS, UnsupportedError
from nki_agent.builtin.regions import Layout, times
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import (
    Access,
    Accumulate,
    Activate,
    AddDown,
    AddUp,
    AffineSelect,
    Combine,
    Copy,
    CopyWhere,
    Cut,
    Fill,
    Invert,
    Iota,
    Kind,
    Load,
    Operand,
    Reduce,
    Scalar,
    Scale,
    ScaleCombine,
    Scan,
    Size,
    Step,
    Store,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.isa.enums import Engine

PositionText = Callable[[Access, Tile], tuple[str, str, str]]
"""The pattern, offset and channel multiplier of whole numbers in the current tile."""


PARKED = "In PSUM: an engine reads one operand from there and one from SBUF at full rate."
"""What is said of a tile that no product made."""


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
        self.chosen = ""
        """The matrix that says which row of a total each partition belongs to."""
        self.is_periodic = False
        """Whether columns made before the loop over rows are those of all tiles."""
        self._made: set[str] = set()
        self._said: set[str] = set()

    def ref(self, tile: Tile, level: int) -> str:
        """A tile as an operand at this level: values of all partitions are cut to the rows."""
        is_kept = tile.level < level and level >= self.row_level
        if is_kept and (tile.kind in (Kind.VECTOR, Kind.ONE) or tile.level < self.row_level):
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
        by_row = tile.kind in (Kind.FULL, Kind.ROW) or tile.level >= self.row_level
        rows = "rows" if by_row else "PARTITIONS"
        if tile.kind is Kind.ROW and tile.level < self.row_level and self.is_periodic:
            return "(lanes, 1)"
        if tile.cols is not None:
            return f"(rows, {'each, ' if self.is_packed else ''}{self.scope.size(tile.cols)})"
        if self.is_packed and rows == "rows":
            return f"(rows, each, {self.cols if tile.is_wide else '1'})"
        if not tile.is_wide:
            return f"({rows}, 1)"
        is_whole = self.vector_cols and tile.level < self.row_level
        return f"({rows}, {'num_cols' if is_whole else self.cols})"

    def take(self, tile: Tile) -> None:
        """This tile is there already."""
        self._made.add(tile.name)

    def allocate(self, tile: Tile) -> None:
        """`nl.ndarray` for a tile that is written for the first time."""
        if tile.name in self._made:
            return
        self._made.add(tile.name)
        dtype, memory = f"nl.{tile.dtype.value}", "psum" if tile.in_psum else "sbuf"
        if tile.in_psum and PARKED not in self._said:
            self._said.add(PARKED)
            self.source.note(PARKED)
        self.source.add(
            f"{tile.name} = nl.ndarray({self.shape(tile)}, dtype={dtype}, buffer=nl.{memory})"
        )

    def print_apart(self, steps: Sequence[Step], level: int) -> None:
        """Steps that take values of rows: the rows of a partition one by one."""
        for step in steps:
            for tile in step_writes(step):
                self.allocate(tile)
        with self.source.block("for e in range(each):"):
            for step in steps:
                self._note(step)
                self.is_packed = False
                text = self._call(step, level)
                self.is_packed = True
                for name in {t.name for t in (*step_reads(step), *step_writes(step))}:
                    # Tiles of all rows; what is kept from before the loop is cut already.
                    text = re.sub(rf"(?<![\w.]){name}(?![\w=\[])", f"{name}[:, e, :]", text)
                self.source.add(text)

    def _note(self, step: Step) -> None:
        comment = _comment(step)
        if comment and comment not in self._said:
            self._said.add(comment)
            self.source.note(comment)

    def print(self, step: Step, level: int) -> None:
        """One step; loads and stores are the stage's own business."""
        self._note(step)
        if isinstance(step, Cut):
            self._cut(step)
            return
        if isinstance(step, AddUp):
            self._add_up(step, level)
            return
        if isinstance(step, AddDown):
            self._add_down(step, level)
            return
        for tile in step_writes(step):
            self.allocate(tile)
        if isinstance(step, Scan) and step.is_before:
            self.source.add(f"nisa.memset(dst={step.dst.name}[:, :1], value={step.initial})")
        self.source.add(self._call(step, level))

    def _cut(self, step: Cut) -> None:
        """A name for columns of a tile, which is allocated first if a later step fills it."""
        self.allocate(step.src)
        self.take(step.dst)
        start = self.scope.size(step.start) if any(step.start) else "0"
        lead = ":, :" if self.is_packed else ":"
        if step.step < 0:
            width = self.scope.size(step.src.cols or ())
            rows = f"[{width}, rows]"
            if self.is_packed:
                rows = f"[{times('each', width)}, rows], [{width}, each]"
            shift = "" if start == "0" else f", offset={start}"
            text = f".ap(pattern=[{rows}, [{step.step}, {self.cols}]]{shift})"
        else:
            cols = self.cols if step.dst.cols is None else self.scope.size(step.dst.cols)
            span = cols if step.step == 1 else f"({cols} - 1) * {step.step} + 1"
            end = span if start == "0" else f"{start} + {span}"
            end = "" if _is_last(step) else end
            stride = "" if step.step == 1 else f" : {step.step}"
            first, behind = "" if start == "0" else f"{start} ", f" {end}" if end else ""
            text = f"[{lead}, {first}:{behind}{stride}]"
        self.source.add(f"{step.dst.name} = {step.src.name}{text}")

    def _add_up(self, step: AddUp, level: int) -> None:
        """One product for each bank of the total's columns."""
        with self.source.block(f"for c0 in range(0, {self.cols}, BANK):"):
            self.source.add(f"end = min(c0 + BANK, {self.cols})")
            self.source.add(
                f"nisa.nc_matmul(dst={step.dst.name}[:, c0:end], stationary={self.chosen},"
                f" moving={self.ref(step.src, level)}[:, c0:end], is_stationary_onezero=True)"
            )

    def _add_down(self, step: AddDown, level: int) -> None:
        """One product for each bank of the columns, to a partition of its own."""
        sums, parts = step.dst.name, f"range(0, {self.cols}, BANK)"
        start = f", start={sums}.shape[0] // 2" if step.number else ""
        with self.source.block(f"for part, c0 in enumerate({parts}{start}):"):
            self.source.add(f"end = min(c0 + BANK, {self.cols})")
            self.source.add(f"first = {sums}.shape[0] - 1 - part")
            self.source.add(
                f"nisa.nc_matmul(dst={sums}[:, : end - c0],"
                f" stationary={step.marks.name}[:rows, first : first + {sums}.shape[0]],"
                f" moving={self.ref(step.src, level)}[:, c0:end], is_stationary_onezero=True)"
            )

    def _call(self, step: Step, level: int) -> str:
        match step:
            case Load() | Store() | Cut() | AddUp() | AddDown():
                raise AssertionError("printed by the stage")
            case Activate():
                return self._activation(step, level)
            case Scale():
                return self._scalars(step, level)
            case Combine():
                return self._pair(step, level)
            case ScaleCombine():
                return self._scalar_tensor(step, level)
            case Reduce() | Scan() | Accumulate():
                return self._along_rows(step, level)
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
        end = ", reverse_pred=True" if step.is_reversed else ""
        if step.otherwise is not None:
            return (
                f"nisa.select_reduce(dst={step.dst.name}, predicate={predicate}, on_true={source},"
                f" on_false={self.scope.number(step.otherwise)}{end})"
            )
        return (
            f"nisa.tensor_copy_predicated(dst={step.dst.name}, src={source},"
            f" predicate={predicate}{end})"
        )

    def _along_rows(self, step: Reduce | Scan | Accumulate, level: int) -> str:
        if isinstance(step, Accumulate):
            kept = f"{step.dst.name}[:rows]"
            return (
                f"nisa.tensor_tensor(dst={kept}, data1={kept}, data2={step.src.name},"
                f" op=nl.{step.op})"
            )
        if isinstance(step, Scan):
            return self._scan(step, level)
        return self._reduction(step, level)

    def _scan(self, step: Scan, level: int) -> str:
        tiles = [step.dst, step.first, step.second]
        refs = [
            self.ref(t, level) if t.is_wide else f"{self.ref(t, level)}.broadcast(1, {self.cols})"
            for t in tiles
        ]
        if step.is_before:
            # Each column but the first gets the state behind the one before it.
            refs = [f"{step.dst.name}[:, 1:]"]
            for tile in tiles[1:]:
                narrow = f"{self.ref(tile, level)}.broadcast(1, {self.cols} - 1)"
                refs.append(f"{self.ref(tile, level)}[:, :-1]" if tile.is_wide else narrow)
        if step.is_backward:
            pattern = f"[[{self.cols}, rows], [-1, {self.cols}]], offset={self.cols} - 1"
            refs = [
                f"{t.name}.ap(pattern={pattern})" if t.is_wide else ref
                for t, ref in zip(tiles, refs, strict=True)
            ]
        return (
            f"nisa.tensor_tensor_scan(dst={refs[0]}, data0={refs[1]}, data1={refs[2]},"
            f" initial={step.initial}, op0=nl.{step.op}, op1=nl.add)"
        )

    def _reduction(self, step: Reduce, level: int) -> str:
        if step.by_halves:
            data = self.ref(step.data, level)
            return f"fold_rows(dst={step.dst.name}, op=nl.{step.op}, data={data})"
        negate = ", negate=True" if step.negate else ""
        axis = 2 if self.is_packed and level == self.row_level else 1
        return (
            f"nisa.tensor_reduce(dst={step.dst.name}, op=nl.{step.op},"
            f" data={self.ref(step.data, level)}, axis={axis}{negate})"
        )

    def _activation(self, step: Activate, level: int) -> str:
        name = "activation" if step.sums is None else "activation_reduce"
        parts = [
            f"dst={step.dst.name}",
            f"op=nl.{step.function}",
            f"data={self.spread(step.data, step.dst, level)}",
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
        case AddDown():
            return "The Tensor Engine, which has time, adds up the columns."
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


def signed(scope: Scope, size: Size) -> str:
    """A size that may be negative."""
    if all(n <= 0 for n in size) and any(size):
        text = scope.size(tuple(-n for n in size))
        return f"-({text})" if " " in text else f"-{text}"
    return scope.size(size)


def step_of(name: str, stride: str) -> str:
    """`name * stride` with its sign in front."""
    return f"-{times(name, stride[1:])}" if stride.startswith("-") else times(name, stride)


def tile_of(step: Step) -> Tile:
    """The tile that a step writes; for a store, the one that it reads."""
    return step.src if isinstance(step, Store) else step_writes(step)[0]


def layout_of(access: Access) -> Layout:
    """An access as a layout."""
    return Layout(tensor=access.tensor, strides=access.strides, offset=access.offset)


def _is_last(step: Cut) -> bool:
    """Whether a cut takes all columns from its first one on."""
    own, whole = step.dst.cols, step.src.cols
    if own is None or whole is None:
        return False
    return all(a + n == b for a, n, b in zip(step.start, own, whole, strict=True))
