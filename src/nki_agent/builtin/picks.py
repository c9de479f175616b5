"""Plans what goes by run-time indices or by rank: gathers, scatters, the largest of each row.

Law: every operand lies row by row, so that a reshape makes a matrix of it; indices are not
negative and within the table, as PyTorch requires of most of these operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import Op, UnsupportedError
from nki_agent.builtin.plan import (
    BagPlan,
    ByIndexPlan,
    Matrix,
    PickPlan,
    RankPlan,
    RunningPlan,
    Stored,
)
from nki_agent.builtin.stages import Group
from nki_agent.builtin.tile_steps import Number, Size
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

TURN_US = 6.0
"""One turn of reading rows, adding and writing them back, each of which waits for the last, beside
the time that their bytes take."""
NAMED_US = 0.9
"""GpSimd's time for the descriptors of a tile whose rows are named by indices."""
TURNED_US = 0.15
"""A tile of 128 rows and columns that is turned in float32."""
TURNED_GAIN_MIN = 0.2
"""Part of the time that a turned table has to save: it takes half of SBUF."""
TURNED_COLS_MAX = 512
"""Rows that one PSUM bank holds."""
PLACES_MAX = 65536
"""Rows of a table whose places have 16 bits."""
SUMS_MAX = 4
"""Partial results at most: with more the transfers themselves take longest."""
PASS_US = 0.15
"""One tile of one-hot rows on the Vector Engine."""
PASSES_FP32 = 4
TENSOR_COLS_PER_US = 2400.0
COLS_MIN = 64
"""A product takes as long as one of so many columns."""
BANKS = 8
BUFFERS = 2
SHORT_COLS = 1024
"""Columns of the short rows that a partition takes together."""
LANES = 128
ROWS_EACH_MIN = 4
NETWORK_COLS = (256, 8192)
"""Rows that are sorted by exchanges: longer than where searches by eight are as fast, and two of
them fit."""
FOUND_MIN, FOUND_COLS = 64, 2048
"""Rows whose elements are looked for once they are sorted: they lie in SBUF beside each other."""
EIGHT = 8
"""Elements that one search finds."""
GROUPS = (4, 8, 16, 32, 64)
GROUPS_SHARE = 0.7
"""What groups have to reach: they take more instructions."""
TOGETHER_MAX = 2
ROW_TILES = 2
"""Tiles as long as a row that a search has at most: the row, and values with places or members."""
PIECE = 16384
"""Columns that one search takes (nki.isa.max8)."""


def _count_sums(plan: PickPlan, chip: ChipSpec) -> int:
    """How many partial results are worth their traffic: written, read and written once more."""
    if plan.out.dtype is not DType.FLOAT32:
        return 1
    turns = max(plan.index.rows) / chip.partitions
    row_us = max(plan.out.cols) * plan.out.dtype.itemsize / chip.dma_bytes_per_ns / 1e3
    out_us = max(plan.out.rows) * row_us
    # Each row that is added is read, and so is what it is added to, which is written back.
    least_us = out_us + 3 * max(plan.index.rows) * row_us
    least_us = max(least_us, turns * NAMED_US * (2 if plan.taken is None else 3))
    wait_us = turns * (TURN_US + 2 * chip.partitions * row_us)
    times = {1: max(wait_us, least_us)} | {
        n: max(wait_us / n, least_us) + 2 * n * out_us for n in range(2, SUMS_MAX + 1)
    }
    return min(times, key=lambda n: times[n])


class _Planner:
    def __init__(self, captured: Captured, group: Group, buffers: Mapping[int, Stored]) -> None:
        self.captured = captured
        self.graph = captured.graph
        self.buffers = buffers
        self.group = group
        self.node = captured.graph[group.nodes[0]]
        self.title = self.node.function.replace("_", " ")

    def elems(self, node_id: int) -> Size:
        """Elements of a node at each shape set."""
        return tuple(g[node_id].num_elems for g in self.captured.graphs)

    def last(self, node_id: int) -> Size:
        """The last axis of a node at each shape set."""
        return tuple(g[node_id].shape[-1] for g in self.captured.graphs)

    def matrix(self, node_id: int, cols: Size) -> Matrix:
        """A node as a matrix of so many columns."""
        stored = self.buffers[self.graph.base(node_id).id]
        if stored.strides is not None:
            raise UnsupportedError(self.node.origin, "its result is part of a larger tensor")
        rows = tuple(n // c for n, c in zip(self.elems(node_id), cols, strict=True))
        return Matrix(tensor=stored.name, rows=rows, cols=cols, dtype=stored.dtype)

    def matrix_or_number(self, node_id: int, cols: Size) -> Matrix | Number:
        """The same; a constant is a number."""
        if self.graph[node_id].op is Op.CONST:
            return tuple(g[node_id].value for g in self.captured.graphs)
        return self.matrix(node_id, cols)

    # -- stages -----------------------------------------------------------------------------------
    def take(self, chip: ChipSpec) -> PickPlan:
        """Rows of a table, or elements of each row."""
        table, index = self.node.inputs
        ones = (1,) * len(self.captured.graphs)
        if self.node.function == "take_rows":
            cols = _ratio(self.elems(self.node.id), self.elems(index))
            found = self.matrix(table, cols), self.matrix(index, ones)
        else:
            cols = self.last(index)
            found = self.matrix(table, self.last(table)), self.matrix(index, cols)
        takes_rows = self.node.function == "take_rows"
        return PickPlan(
            title=self.title,
            function=self.node.function,
            table=found[0],
            index=found[1],
            rows=None,
            out=self.matrix(self.node.id, cols),
            is_turned=takes_rows and is_turning_faster(found[0], self.elems(index), chip),
        )

    def change(self, chip: ChipSpec) -> PickPlan:
        """Rows that are put, or added."""
        table, rows, index, *more = self.node.inputs
        ones = (1,) * len(self.captured.graphs)
        is_taken = bool(more)
        cols = self.last(rows) if is_taken else _ratio(self.elems(rows), self.elems(index))
        taken, weight, *_ = [*(self.matrix(n, ones) for n in more), None, None]
        out = self.matrix(self.node.id, cols)
        plan = PickPlan(
            title=self.title,
            function=self.node.function,
            table=self.matrix_or_number(table, cols),
            index=self.matrix(index, ones),
            rows=self.matrix_or_number(rows, cols),
            out=out,
            taken=taken,
            weight=weight,
        )
        if self.node.function != "add_rows":
            return plan
        if _is_one_hot_cheap(out, chip):
            return replace(plan, is_one_hot=True)
        return replace(plan, num_sums=_count_sums(plan, chip))

    def bag(self, chip: ChipSpec) -> BagPlan:
        """Weighted sums of rows that indices name."""
        table, index, weight = self.node.inputs
        cols, size = self.last(self.node.id), self.bag_size(index)
        rows = self.matrix(table, cols)
        return BagPlan(
            title=self.title,
            is_turned=is_turning_faster(rows, self.elems(index), chip),
            table=rows,
            index=self.matrix(index, size),
            weight=self.matrix(weight, size),
            out=self.matrix(self.node.id, cols),
        )

    def bag_size(self, index: int) -> Size:
        """Rows of each bag."""
        bags = _ratio(self.elems(self.node.id), self.last(self.node.id))
        return _ratio(self.elems(index), bags)

    def mark(self) -> PickPlan:
        """Ones at the places that indices name."""
        index = self.node.inputs[0]
        return PickPlan(
            title=self.title,
            function=self.node.function,
            table=(0.0,) * len(self.captured.graphs),
            index=self.matrix(index, self.last(index)),
            rows=None,
            out=self.matrix(self.node.id, self.last(self.node.id)),
        )

    def rank(self, chip: ChipSpec) -> RankPlan:
        """The first of each row, and their places."""
        source = self.node.inputs[0]
        count = self.last(self.node.id)
        found = {
            self.graph[n].function.partition("_")[2]: self.matrix(n, count)
            for n in self.group.nodes
        }
        plan = RankPlan(
            title="ranks of rows",
            source=self.matrix(source, self.last(source)),
            values=found.get("values"),
            places=found.get("places"),
            count=count,
            is_descending=self.node.function.startswith("top"),
            rows_each=_rows_each(self.elems(source), self.last(source)),
        )
        return _as_network(plan, chip) or _by_turns(plan, chip)

    def running(self) -> RunningPlan:
        """The largest element so far."""
        source = self.node.inputs[0]
        return RunningPlan(
            title=self.title,
            op=self.node.function.partition("_")[2],
            source=self.matrix(source, self.last(source)),
            out=self.matrix(self.node.id, self.last(source)),
        )


def plan_pick(
    captured: Captured, group: Group, *, buffers: Mapping[int, Stored], chip: ChipSpec
) -> ByIndexPlan:
    """Plan one stage.

    Raises:
        UnsupportedError: rows that do not fit SBUF.
    """
    planner = _Planner(captured, group, buffers)
    match planner.node.function.partition("_")[0]:
        case "take":
            plan: ByIndexPlan = planner.take(chip)
        case "put" | "add":
            plan = planner.change(chip)
        case "mark":
            plan = planner.mark()
        case "bag":
            plan = planner.bag(chip)
        case "running":
            plan = planner.running()
        case _:
            plan = planner.rank(chip)
    _require_room(planner, plan, chip)
    return plan


def _require_room(planner: _Planner, plan: ByIndexPlan, chip: ChipSpec) -> None:
    """Rows that are taken are cut into blocks of columns; others must fit."""
    found: list[Matrix | Number | None] = []
    match plan:
        case PickPlan(function="take_rows"):
            pass
        case BagPlan():
            found = [plan.table, plan.out]
        case PickPlan():
            found = [plan.table, plan.index, plan.rows, plan.out]
            if plan.function == "take_cols" and all(n == 1 for n in plan.index.cols):
                found = []  # elements are taken one by one: no row is loaded
        case RankPlan():
            found = [_widest_search(plan)]
        case RunningPlan():
            found = [plan.source, plan.out]
    room = chip.sbuf_usable_partition_bytes // BUFFERS
    for matrix in found:
        if isinstance(matrix, Matrix) and max(matrix.cols) * matrix.dtype.itemsize > room:
            raise UnsupportedError(
                planner.node.origin,
                f"a row of {max(matrix.cols)} columns does not fit SBUF",
                hint=f"rows may have up to {room // matrix.dtype.itemsize} columns",
            )


def _rows_each(elems: Size, cols: Size) -> int | None:
    """Rows that a partition takes, where single ones would make transfers too short."""
    tiles = max(elems) // max(cols) // LANES
    each = min(SHORT_COLS // max(cols), tiles)
    return each if each >= ROWS_EACH_MIN else None


def is_turning_faster(table: Matrix, taken: Size, chip: ChipSpec) -> bool:
    """Whether rows are taken in less time from a turned table than by a descriptor for each."""
    rows, cols = max(table.rows), max(table.cols)
    blocks = -(-cols // LANES)
    needed = blocks * rows * table.dtype.itemsize
    is_covered = table.dtype in (DType.FLOAT32, DType.BFLOAT16) and cols <= TURNED_COLS_MAX
    if not is_covered or rows > PLACES_MAX or needed > chip.sbuf_usable_partition_bytes // 2:
        return False
    tiles = -(-max(taken) // LANES)
    turning = TURNED_US * blocks * (tiles - (-rows // LANES))
    return turning < NAMED_US * tiles * (1 - TURNED_GAIN_MIN)


def _as_network(plan: RankPlan, chip: ChipSpec) -> RankPlan | None:
    """The same by exchanges, where long rows are sorted whole; places are looked for afterwards."""
    cols = plan.source.cols
    finds = plan.places is not None
    is_whole = plan.count == cols and plan.source.dtype.is_float
    least, most = NETWORK_COLS[0], FOUND_COLS if finds else NETWORK_COLS[1]
    if not is_whole or not least <= max(cols) <= most or (finds and min(cols) < FOUND_MIN):
        return None
    length = 2 ** (max(cols) - 1).bit_length()
    tiles = -(-max(plan.source.rows) // LANES)
    # PSUM holds half of the elements, before a step and after it.
    room = chip.psum_partition_bytes // DType.FLOAT32.itemsize
    each = max(1, min(room // length, tiles))
    return replace(plan, is_network=True, rows_each=each, is_paired=each * length <= room)


def _by_turns(plan: RankPlan, chip: ChipSpec) -> RankPlan:
    """The same for several tiles of rows by turns, and by groups where that saves passes."""
    cols, count = max(plan.source.cols), -(-max(plan.count) // EIGHT) * EIGHT
    if plan.rows_each is not None or cols > PIECE:
        return plan
    passes, short = 2 * count // EIGHT, chip.small_instruction_cycles
    group, least = 1, GROUPS_SHARE * passes * cols
    for size in GROUPS:
        cycles = cols + passes * (max(short, cols // size) + max(short, count * size))
        if cycles < least:
            group, least = size, cycles
    tiles = -(-max(plan.source.rows) // LANES)
    room = chip.sbuf_usable_partition_bytes // (BUFFERS * ROW_TILES * DType.FLOAT32.itemsize)
    together = max(1, min(TOGETHER_MAX, room // cols, tiles))
    return replace(plan, group=group, together=together)


def _widest_search(plan: RankPlan) -> Matrix:
    """What a search reads at most: a row, or the best of all pieces of one."""
    pieces = -(-max(plan.source.cols) // PIECE)
    if pieces == 1:
        return plan.source
    return replace(plan.source, cols=tuple(pieces * n for n in plan.count), dtype=DType.FLOAT32)


def _ratio(elems: Size, rows: Size) -> Size:
    return tuple(n // r for n, r in zip(elems, rows, strict=True))


def _is_one_hot_cheap(out: Matrix, chip: ChipSpec) -> bool:
    """Whether products with one-hot rows beat reading, adding and writing back row by row."""
    tiles = -(-max(out.rows) // chip.partitions)
    bank = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    cols = max(*out.cols, COLS_MIN)
    each = PASS_US + PASSES_FP32 * cols / TENSOR_COLS_PER_US
    return tiles * -(-cols // bank) <= BANKS and tiles * each <= TURN_US
