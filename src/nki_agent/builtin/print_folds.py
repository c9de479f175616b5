"""Prints reductions over an axis whose elements lie apart."""

from __future__ import annotations

from nki_agent.builtin.plan import FoldPlan, Plan
from nki_agent.builtin.print_rows import OUTER_NAMES
from nki_agent.builtin.regions import access_pattern, times
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access, Size
from nki_agent.isa.dtype import DType

LANE_TILES = '''def lane_tiles(num_elems, block):
    """(start, rows, cols) of the tiles of a run that all partitions share, the rest last."""
    width = num_elems // PARTITIONS
    tiles = []
    for start in range(0, width, block):
        tiles.append((start, PARTITIONS, min(block, width - start)))
    if num_elems % PARTITIONS:
        tiles.append((width * PARTITIONS, 1, num_elems % PARTITIONS))
    return tiles
'''

DEPTH_TILES = '''def depth_tiles(depth, block):
    """(start, rows, count) of the tiles of an axis of which each partition takes every 128th."""
    whole = depth // PARTITIONS
    tiles = []
    for t in range(0, whole, block):
        tiles.append((t * PARTITIONS, PARTITIONS, min(block, whole - t)))
    if depth % PARTITIONS:
        tiles.append((whole * PARTITIONS, depth % PARTITIONS, 1))
    return tiles
'''
DEPTH_RUNS = '''def depth_runs(depth, block):
    """(start, step, rows, count) of the tiles of an axis whose neighbours share a partition."""
    whole = depth // PARTITIONS
    tiles = []
    for t in range(0, whole, block):
        tiles.append((t, whole, PARTITIONS, min(block, whole - t)))
    if depth % PARTITIONS:
        tiles.append((whole * PARTITIONS, 1, depth % PARTITIONS, 1))
    return tiles
'''


def is_product(plan: FoldPlan) -> bool:
    """Whether a column of ones adds up on the Tensor Engine, which takes short floats at once."""
    is_short = plan.dtype.itemsize < DType.FLOAT32.itemsize
    return plan.partitions == "depth" and plan.function == "add" and is_short


def fold_helpers(plan: Plan) -> list[str]:
    """The helper functions that such stages call."""
    folds = [stage for stage in plan.stages if isinstance(stage, FoldPlan)]
    runs = any(fold.partitions == "runs" for fold in folds)
    depths = {fold.takes_neighbours for fold in folds if fold.partitions == "depth"}
    return [LANE_TILES] * runs + [DEPTH_TILES] * (False in depths) + [DEPTH_RUNS] * (True in depths)


class FoldPrinter:
    """Prints one FoldPlan into a function body."""

    def __init__(self, plan: FoldPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        self.names = OUTER_NAMES[: len(plan.batch)]
        self.is_whole = plan.partitions != "depth" and max(plan.m) <= plan.row_block

    def print(self) -> None:
        """The whole reduction."""
        plan, add = self.plan, self.source.add
        for name, size in zip(self.names, plan.batch, strict=True):
            self._size(f"num_{name}", size)
        self._size("num_rows", plan.m)
        self._size("num_cols", plan.n)
        if plan.partitions == "runs":
            add("width = num_cols // PARTITIONS")
        if plan.partitions == "depth":
            add("lanes = min(PARTITIONS, num_rows)")
            if plan.function == "add":
                dtype = plan.dtype if is_product(plan) else DType.FLOAT32
                add(f"ones = nl.ndarray((lanes, 1), dtype=nl.{dtype.value}, buffer=nl.sbuf)")
                add("nisa.memset(dst=ones, value=1.0)")
        self._batch(0)

    def _size(self, name: str, size: Size) -> None:
        self.source.add(f"{name} = {self.scope.size(size)}")
        if any(s != 1 for s in size):
            self.scope.names.setdefault(name, size)

    def _batch(self, level: int) -> None:
        add, block, plan = self.source.add, self.source.block, self.plan
        loops = self.names[:-1] if plan.partitions == "batch" else self.names
        if level < len(loops):
            with block(f"for {loops[level]} in range(num_{loops[level]}):"):
                self._batch(level + 1)
            return
        if plan.partitions == "runs":
            with block(f"for start, rows, cols in lane_tiles(num_cols, {plan.col_block}):"):
                self._partitions()
            return
        if plan.partitions == "batch":
            count = f"num_{self.names[-1]}" if self.names else "1"
            with block(f"for r0 in range(0, {count}, PARTITIONS):"):
                add(f"rows = min(PARTITIONS, {count} - r0)")
                self._columns()
            return
        self._columns()

    def _columns(self) -> None:
        width = self.plan.col_block
        with self.source.block(f"for c0 in range(0, num_cols, {width}):"):
            self.source.add(f"cols = min({width}, num_cols - c0)")
            if is_product(self.plan):
                self._product()
            elif self.plan.partitions == "depth":
                self._depth()
            else:
                self._partitions()

    # -- a reduction in each partition ------------------------------------------------------------
    def _partitions(self) -> None:
        """Whole results, each in its partition."""
        add, plan = self.source.add, self.plan
        self._total("rows")
        if self.is_whole:
            self._load(count="num_rows")
            self._accumulate("total", "num_rows", "e")
        else:
            with self.source.block(f"for m0 in range(0, num_rows, {plan.row_block}):"):
                add(f"count = min({plan.row_block}, num_rows - m0)")
                self._load(count="count")
                self._accumulate("total", "count", "m0 + e")
        self._store(self._moved("total", "(rows, cols)"), "rows", "cols")

    def _depth(self) -> None:
        """Parts of each result in all partitions, which are joined at the end."""
        add, plan = self.source.add, self.plan
        self._total("lanes")
        with self.source.block(self._depth_loop()):
            self._load(count="count")
            self._accumulate("total[:rows]", "count", "m0 + e")
        add("parts = nl.ndarray((lanes, cols), dtype=nl.float32, buffer=nl.sbuf)")
        add("nisa.activation(dst=parts, op=nl.copy, data=total)")
        if plan.function == "add":
            self.source.note("A column of ones adds the partitions up.")
            add("joined = nl.ndarray((1, cols), dtype=nl.float32, buffer=nl.psum)")
            add("nisa.nc_matmul(dst=joined, stationary=ones, moving=parts)")
            self._store(self._moved("joined", "(1, cols)"), "1", "cols")
            return
        with self.source.block("for b0 in range(0, cols, PARTITIONS):"):
            add("size = min(PARTITIONS, cols - b0)")
            add("turned = nl.ndarray((size, lanes), dtype=nl.float32, buffer=nl.psum)")
            add("nisa.nc_transpose(dst=turned, data=parts[:, b0 : b0 + size])")
            dtype = f"nl.{plan.out_dtype.value}"
            add(f"result = nl.ndarray((size, 1), dtype={dtype}, buffer=nl.sbuf)")
            add(f"nisa.tensor_reduce(dst=result, op=nl.{plan.function}, data=turned, axis=1)")
            pace = self._pace(plan.target, -1)
            offset = [*self._start(plan.target), times("c0 + b0", pace)]
            pattern = [[pace, "size"], ["1", "1"]]
            text = access_pattern(plan.target.tensor, pattern, offset)
            add(f"nisa.dma_copy(dst={text}, src=result)")

    def _product(self) -> None:
        """All partitions added up by a column of ones, in PSUM."""
        add = self.source.add
        self.source.note("A column of ones adds the partitions up.")
        add("joined = nl.ndarray((1, cols), dtype=nl.float32, buffer=nl.psum)")
        with self.source.block(self._depth_loop()):
            self._load(count="count")
            with self.source.block("for e in range(count):"):
                add("nisa.nc_matmul(dst=joined, stationary=ones[:rows], moving=tile[:, e, :])")
        self._store(self._moved("joined", "(1, cols)"), "1", "cols")

    def _depth_loop(self) -> str:
        if self.plan.takes_neighbours:
            return f"for m0, step, rows, count in depth_runs(num_rows, {self.plan.row_block}):"
        return f"for m0, rows, count in depth_tiles(num_rows, {self.plan.row_block}):"

    # -- steps ------------------------------------------------------------------------------------
    def _total(self, rows: str) -> None:
        self.source.note("Kept in PSUM, so that SBUF is read once for each element.")
        self.source.add(f"total = nl.ndarray(({rows}, cols), dtype=nl.float32, buffer=nl.psum)")

    def _moved(self, name: str, shape: str) -> str:
        """What is in PSUM, in the result's dtype and in SBUF."""
        dtype = f"nl.{self.plan.out_dtype.value}"
        self.source.add(f"result = nl.ndarray({shape}, dtype={dtype}, buffer=nl.sbuf)")
        self.source.add(f"nisa.activation(dst=result, op=nl.copy, data={name})")
        return "result"

    def _accumulate(self, total: str, count: str, index: str) -> None:
        """Join the tile to the total of each partition."""
        add = self.source.add
        with self.source.block(f"for e in range({count}):"):
            with self.source.block(f"if {index} == 0:"):
                add(f"nisa.tensor_copy(dst={total}, src=tile[:, e, :])")
            with self.source.block("else:"):
                add(
                    f"nisa.tensor_tensor(dst={total}, data1={total}, data2=tile[:, e, :],"
                    f" op=nl.{self.plan.function})"
                )

    def _load(self, *, count: str) -> None:
        plan, add = self.plan, self.source.add
        dtype = f"nl.{plan.dtype.value}"
        add(f"tile = nl.ndarray((rows, {count}, cols), dtype={dtype}, buffer=nl.sbuf)")
        pace = self._pace(plan.source, -2)
        offset = self._start(plan.source)
        if not self.is_whole:
            offset.append(times("m0", pace))
        step = pace
        match plan.partitions:
            case "runs":
                first = "width"
                offset.append("start")
            case "batch":
                first = self._pace(plan.source, -3) if self.names else "1"
                offset.append("c0")
            case _ if plan.takes_neighbours:
                first = times("step", pace)
                offset.append("c0")
            case _:
                first, step = pace, times("PARTITIONS", pace)
                offset.append("c0")
        pattern = [[first, "rows"], [step, count], ["1", "cols"]]
        text = access_pattern(plan.source.tensor, pattern, offset)
        add(f"nisa.dma_copy(dst=tile, src={text})")

    def _store(self, name: str, rows: str, cols: str) -> None:
        plan = self.plan
        pace = self._pace(plan.target, -1)
        first, start = "1", "c0"
        if plan.partitions == "runs":
            first, start = times("width", pace), "start"
        elif plan.partitions == "batch" and self.names:
            first = self._pace(plan.target, -2)
        offset = [*self._start(plan.target), times(start, pace)]
        text = access_pattern(plan.target.tensor, [[first, rows], [pace, cols]], offset)
        self.source.add(f"nisa.dma_copy(dst={text}, src={name})")

    def _pace(self, access: Access, axis: int) -> str:
        stride = access.strides[axis]
        return self.scope.size(stride) if any(stride) else "1"

    def _start(self, access: Access) -> list[str]:
        """Terms of the offset that the loops over the batch give."""
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        for name, stride in zip(self.names, access.strides, strict=False):
            is_last = self.plan.partitions == "batch" and name == self.names[-1]
            if any(stride):
                terms.append(times("r0" if is_last else name, self.scope.size(stride)))
        return terms
