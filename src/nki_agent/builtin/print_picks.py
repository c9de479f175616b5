"""Prints gathers, scatters and sums by index.

Rows that indices name are moved by DMA, which takes one index for each partition. Rows that are
added may repeat: rows of one tile that share their index are summed first, by a product with the
matrix that says which are equal, so that each of them writes the same sum.
"""

from __future__ import annotations

from nki_agent.builtin.picks import LANES
from nki_agent.builtin.plan import Matrix, PickPlan, RunningPlan
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Number, Size
from nki_agent.isa.dtype import DType

LOCALS = frozenset(
    {"rows", "cols", "each", "size", "places", "values", "tile", "data", "held", "sums", "start"}
    | {"numbers", "starts", "added", "one_hot", "is_same", "chosen", "found", "count", "pieces"}
    | {"wanted", "marks", "place", "is_here", "turned", "spread", "ready", "block"}
    | {"weights", "share", "high", "low", "high_bits", "low_bits", "high_digits", "low_digits"}
    | {"whole", "rest", "part", "sources", "num_given", "filled"}
    | {"zeros", "parts", "total", "num_put", "num_taken", "begun", "turn"}
    | {"width", "product", "shape", "best_values", "best_places", "elements"}
)
"""Names of these stages: a tensor that is called so gets another one."""
BLOCK_BYTES = 32768
"""Bytes of a row that are moved at a time."""
LONG_ROW_BYTES = 2048
"""Rows up to this are taken several at a time; transfers of longer ones are long enough."""
TAKEN_EACH = 16
"""Rows of each partition that are taken together at most."""
CHUNK = 512
"""Rows of each partition that are loaded at a time where they are added up."""
CHUNK_BYTES = 32768
JOINED_BYTES = 8192
"""Bytes of a partition in which partial results are added."""
ADDED_EACH = 64
"""Indices of a partition that are loaded together: one run of memory for each."""


class Names:
    """Sizes and views of the matrices of a stage."""

    def __init__(self, source: Source, scope: Scope) -> None:
        self.source = source
        self.scope = scope

    def size(self, name: str, value: Size, matrix: Matrix, *, from_last: bool = False) -> str:
        """One line that names a size by the tensor that it belongs to."""
        text = self.scope.from_shapes(value, matrix.tensor, from_last=from_last)
        self.source.add(f"{name} = {text}")
        if any(n != 1 for n in value):
            self.scope.names[name] = value
        return name

    def view(self, matrix: Matrix, rows: str, cols: str) -> str:
        """The tensor as a matrix: itself, or a reshape with a name."""
        name = f"{matrix.tensor}_rows"
        if list(self.scope.shapes[matrix.tensor]) == [matrix.rows, matrix.cols]:
            if matrix.tensor not in LOCALS:
                return matrix.tensor
            self.source.add(f"{name} = {matrix.tensor}")
            return name
        self.source.add(f"{name} = {matrix.tensor}.reshape(({rows}, {cols}))")
        return name

    def tile(self, name: str, shape: str, dtype: str, memory: str = "sbuf") -> None:
        """`nl.ndarray` on the chip."""
        self.source.add(f"{name} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.{memory})")


def takes_runs(plan: PickPlan) -> bool:
    """Whether rows are taken whole, several in each partition."""
    if plan.function != "take_rows" or not isinstance(plan.table, Matrix):
        return False
    if max(plan.index.rows) <= LANES:
        return False
    return max(plan.table.cols) * plan.table.dtype.itemsize <= LONG_ROW_BYTES


def run_of_rows(tensor: str, cols: str) -> str:
    """Rows that follow each other in one partition."""
    pattern = f"[[each * {cols}, rows], [{cols}, each], [1, {cols}]]"
    return f"{tensor}.ap(pattern={pattern}, offset=start * {cols})"


class PickPrinter:
    """Prints one PickPlan into a function body."""

    def __init__(self, plan: PickPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.names = Names(source, scope)
        self.scope = scope

    def print(self) -> None:
        """The whole stage."""
        match self.plan.function:
            case "take_rows":
                self._take_rows()
            case "take_cols" if all(n == 1 for n in self.plan.index.cols):
                self._take_one()
            case "take_cols":
                self._take_cols()
            case "mark_cols":
                self._mark_cols()
            case "put_rows":
                self._start_out()
                self._put_rows()
            case _ if self.plan.is_one_hot:
                self._add_one_hot()
            case _:
                self._start_out()
                self._add_rows()

    # -- taking -----------------------------------------------------------------------------------
    def _load_places(self) -> None:
        self.names.tile("places", "(rows, 1)", "int32")
        self.source.add(f"nisa.dma_copy(dst=places, src={self.index}[r0 : r0 + rows, :])")

    def _take_rows(self) -> None:
        plan, add = self.plan, self.source.add
        assert isinstance(plan.table, Matrix)
        self.names.size("num_taken", plan.index.rows, plan.index)
        self.names.size("num_rows", plan.table.rows, plan.table)
        self.names.size("num_cols", plan.table.cols, plan.table, from_last=True)
        self.index = self.names.view(plan.index, "num_taken", "1")
        table = self.names.view(plan.table, "num_rows", "num_cols")
        out = self.names.view(plan.out, "num_taken", "num_cols")
        if takes_runs(plan):
            self._take_runs(table, out)
            return
        with self.source.block("for r0 in range(0, num_taken, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_taken - r0)")
            self._load_places()
            self.source.note("From HBM to HBM: no engine needs to see it.")
            block = BLOCK_BYTES // plan.table.dtype.itemsize
            if max(plan.table.cols) <= block:
                part = f"{table}.vector_select(0, places)"
                add(f"nisa.dma_copy(dst={out}[r0 : r0 + rows, :], src={part})")
                return
            with self.source.block(f"for c0 in range(0, num_cols, {block}):"):
                add(f"cols = min({block}, num_cols - c0)")
                part = f"{table}[:, c0 : c0 + cols].vector_select(0, places)"
                add(f"nisa.dma_copy(dst={out}[r0 : r0 + rows, c0 : c0 + cols], src={part})")

    def _take_runs(self, table: str, out: str) -> None:
        """Several rows in each partition: one transfer brings their indices, one stores them."""
        plan, add = self.plan, self.source.add
        row_bytes = max(plan.out.cols) * plan.out.dtype.itemsize
        most = max(1, min(TAKEN_EACH, BLOCK_BYTES // row_bytes))
        with self.source.block(f"for start, rows, each in row_blocks(num_taken, {most}):"):
            self.names.tile("places", "(rows, each)", "int32")
            pattern = "pattern=[[each, rows], [1, each]], offset=start"
            add(f"nisa.dma_copy(dst=places, src={self.index}.ap({pattern}))")
            self.names.tile("tile", "(rows, each, num_cols)", plan.out.dtype.value)
            with self.source.block("for e in range(each):"):
                add(
                    "nisa.dma_copy(dst=tile[:, e, :],"
                    f" src={table}.vector_select(0, places[:, e : e + 1]))"
                )
            add(f"nisa.dma_copy(dst={run_of_rows(out, 'num_cols')}, src=tile)")

    def _take_one(self) -> None:
        """One element of each row, without the rest of the row."""
        plan, add = self.plan, self.source.add
        assert isinstance(plan.table, Matrix)
        self.names.size("num_rows", plan.index.rows, plan.index)
        self.names.size("num_cols", plan.table.cols, plan.table, from_last=True)
        self.index = self.names.view(plan.index, "num_rows", "1")
        out = self.names.view(plan.out, "num_rows", "1")
        add(f"elements = {plan.table.tensor}.reshape((num_rows * num_cols, 1))")
        with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_rows - r0)")
            self.source.note("One element of each row: its number in the whole tensor.")
            self.names.tile("starts", "(rows, 1)", "int32")
            add(
                "nisa.iota(dst=starts, pattern=[[0, 1]], offset=r0 * num_cols,"
                " channel_multiplier=num_cols)"
            )
            self._load_places()
            self.source.note("GpSimd adds whole numbers exactly.")
            self.names.tile("numbers", "(rows, 1)", "int32")
            add(
                "nisa.tensor_tensor(dst=numbers, data1=starts, data2=places, op=nl.add,"
                " engine=nisa.engine.gpsimd)"
            )
            self.names.tile("tile", "(rows, 1)", plan.table.dtype.value)
            add("nisa.dma_copy(dst=tile, src=elements.vector_select(0, numbers))")
            add(f"nisa.dma_copy(dst={out}[r0 : r0 + rows, :], src=tile)")

    def _take_cols(self) -> None:
        plan, add = self.plan, self.source.add
        assert isinstance(plan.table, Matrix)
        self.names.size("num_rows", plan.table.rows, plan.table)
        self.names.size("num_cols", plan.table.cols, plan.table, from_last=True)
        self.names.size("num_taken", plan.index.cols, plan.index, from_last=True)
        table = self.names.view(plan.table, "num_rows", "num_cols")
        index = self.names.view(plan.index, "num_rows", "num_taken")
        out = self.names.view(plan.out, "num_rows", "num_taken")
        with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_rows - r0)")
            self.names.tile("data", "(rows, num_cols)", plan.table.dtype.value)
            add(f"nisa.dma_copy(dst=data, src={table}[r0 : r0 + rows, :])")
            self.names.tile("places", "(rows, num_taken)", "uint32")
            add(f"nisa.dma_copy(dst=places, src={index}[r0 : r0 + rows, :])")
            self.names.tile("tile", "(rows, num_taken)", plan.table.dtype.value)
            add("nisa.nc_n_gather(dst=tile, data=data, indices=places)")
            add(f"nisa.dma_copy(dst={out}[r0 : r0 + rows, :], src=tile)")

    def _mark_cols(self) -> None:
        plan, add = self.plan, self.source.add
        self.names.size("num_rows", plan.index.rows, plan.index)
        self.names.size("num_marks", plan.index.cols, plan.index, from_last=True)
        self.names.size("num_cols", plan.out.cols, plan.out, from_last=True)
        index = self.names.view(plan.index, "num_rows", "num_marks")
        out = self.names.view(plan.out, "num_rows", "num_cols")
        self.names.tile("numbers", "(PARTITIONS, num_cols)", "float32")
        add("nisa.iota(dst=numbers, pattern=[[1, num_cols]])")
        each = max(1, CHUNK // max(plan.out.cols))
        with self.source.block(f"for start, rows, each in row_blocks(num_rows, {each}):"):
            self.names.tile("places", "(rows, each, num_marks)", "float32")
            add(f"nisa.dma_copy(dst=places, src={run_of_rows(index, 'num_marks')})")
            add("wanted = numbers[:rows].expand_dim(1).broadcast(1, each)")
            self.names.tile("marks", "(rows, each, num_cols)", plan.out.dtype.value)
            with self.source.block("for k in range(num_marks):"):
                self.names.tile("is_here", "(rows, each, num_cols)", plan.out.dtype.value)
                add("place = places[:, :, k : k + 1].broadcast(2, num_cols)")
                add(
                    "nisa.tensor_tensor(dst=is_here if k else marks, data1=wanted, data2=place,"
                    " op=nl.equal)"
                )
                with self.source.block("if k:"):
                    add("nisa.tensor_tensor(dst=marks, data1=marks, data2=is_here, op=nl.maximum)")
            add(f"nisa.dma_copy(dst={run_of_rows(out, 'num_cols')}, src=marks)")

    # -- putting ----------------------------------------------------------------------------------
    def _start_out(self) -> None:
        """What `out` holds before: the table, or one number."""
        plan, add = self.plan, self.source.add
        self.names.size("num_put", plan.index.rows, plan.index)
        self.names.size("num_rows", plan.out.rows, plan.out)
        self.names.size("num_cols", plan.out.cols, plan.out, from_last=True)
        self.index = self.names.view(plan.index, "num_put", "1")
        self.out = self.names.view(plan.out, "num_rows", "num_cols")
        self._view_rows()
        if isinstance(plan.table, Matrix) and plan.table.tensor == plan.out.tensor:
            return  # It is updated where it lies.
        if isinstance(plan.table, Matrix):
            add(f"nisa.dma_copy(dst={plan.out.tensor}, src={plan.table.tensor})")
            return
        self.names.tile("filled", "(PARTITIONS, num_cols)", plan.out.dtype.value)
        add(f"nisa.memset(dst=filled, value={self._literal(plan.table)})")
        self._fill(self.out, "filled")

    def _fill(self, target: str, tile: str) -> None:
        """All rows of a tensor in HBM from one tile, in few transfers."""
        with self.source.block(f"for start, rows, each in row_blocks(num_rows, {ADDED_EACH}):"):
            alike = f"{tile}[:rows].expand_dim(1).broadcast(1, each)"
            self.source.add(f"nisa.dma_copy(dst={run_of_rows(target, 'num_cols')}, src={alike})")

    def _view_rows(self) -> None:
        """What is put or added, in order or as the table that it is taken from."""
        plan = self.plan
        if isinstance(plan.rows, Matrix):
            count = "num_put"
            if plan.taken is not None:
                count = self.names.size("num_given", plan.rows.rows, plan.rows)
            self.rows = self.names.view(plan.rows, count, "num_cols")

    def _literal(self, number: Number) -> str:
        text = self.scope.number(number)
        return text.removesuffix(".0") if self.plan.out.dtype.is_integer else text

    def _load_rows(self, dtype: str) -> None:
        self.names.tile("tile", "(rows, num_cols)", dtype)
        if isinstance(self.plan.rows, Matrix):
            self.source.add(f"nisa.dma_copy(dst=tile, src={self.rows}[r0 : r0 + rows, :])")
        else:
            assert self.plan.rows is not None
            self.source.add(f"nisa.memset(dst=tile, value={self._literal(self.plan.rows)})")

    def _put_rows(self) -> None:
        add = self.source.add
        with self.source.block("for r0 in range(0, num_put, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_put - r0)")
            self._load_places()
            self._load_rows(self.plan.out.dtype.value)
            add(f"nisa.dma_copy(dst={self.out}.vector_select(0, places), src=tile)")

    # -- adding -----------------------------------------------------------------------------------
    def _add_rows(self) -> None:
        add, block, turn = self.source.add, self.source.block, self.plan.num_sums
        if turn > 1:
            self._begin_parts()
        with block(f"for start, rows, each in row_blocks(num_put, {self._added_each()}):"):
            self._load_block()
            if turn == 1:
                with block("for e in range(each):"):
                    self._read_sums(self.out)
                    self._write_sums(self.out)
                return
            self.source.note("GpSimd works in order: all reads of a turn come before its writes.")
            with block(f"for e0 in range(0, each, {turn}):"):
                add("begun = []")
                with block(f"for e in range(e0, min(e0 + {turn}, each)):"):
                    add("part = parts[e - e0]")
                    self._read_sums("part")
                    add("begun.append((part, place, tile, is_same, held))")
                with block("for part, place, tile, is_same, held in begun:"):
                    self._write_sums("part")
        self._join_parts()

    def _added_each(self) -> int:
        """Rows of a partition whose indices, and themselves if they lie in order, come together."""
        plan = self.plan
        if plan.taken is not None or not isinstance(plan.rows, Matrix):
            return ADDED_EACH
        row = max(plan.rows.cols) * DType.FLOAT32.itemsize
        return max(1, min(ADDED_EACH, CHUNK_BYTES // row))

    def _load_block(self) -> None:
        """Indices of some rows in each partition, and the rows if they lie in order."""
        add, plan = self.source.add, self.plan
        self.source.note("Which partition takes which row does not matter to a sum.")
        self.names.tile("places", "(rows, each)", "int32")
        run = "pattern=[[each, rows], [1, each]], offset=start"
        add(f"nisa.dma_copy(dst=places, src={self.index}.ap({run}))")
        self.names.tile("numbers", "(rows, each)", "float32")
        add("nisa.tensor_copy(dst=numbers, src=places)")
        if plan.taken is not None:
            self._load_taken()
        elif isinstance(plan.rows, Matrix):
            self._load_added("float32")
        else:
            assert plan.rows is not None
            self.names.tile("tile", "(rows, num_cols)", "float32")
            add(f"nisa.memset(dst=tile, value={self._literal(plan.rows)})")

    def _load_taken(self) -> None:
        """Which rows of their table are added, and their weights."""
        run = "pattern=[[each, rows], [1, each]], offset=start"
        for name, matrix in (("sources", self.plan.taken), ("weights", self.plan.weight)):
            if matrix is not None:
                self.names.tile(name, "(rows, each)", "int32" if name == "sources" else "float32")
                view = self.names.view(matrix, "num_put", "1")
                self.source.add(f"nisa.dma_copy(dst={name}, src={view}.ap({run}))")

    def _take(self, target: str) -> None:
        """One of these rows in each partition."""
        self.source.add(
            f"nisa.dma_copy(dst={target}, src={self.rows}.vector_select(0, sources[:, e : e + 1]))"
        )

    def _weighed(self) -> str:
        """The end of a comparison whose ones are the weights of rows that are taken."""
        return ", op1=nl.multiply, operand1=weights[:, e : e + 1]" if self.plan.weight else ""

    def _read_sums(self, target: str) -> None:
        """One row in each partition, which of them belong together, and what they are added to."""
        self.source.add("place = places[:, e : e + 1]")
        if self.plan.taken is not None:
            self.names.tile("tile", "(rows, num_cols)", "float32")
            self._take("tile")
        elif isinstance(self.plan.rows, Matrix):
            self.source.add("tile = added[:, e, :]")
        self._equal_rows()
        self.names.tile("held", "(rows, num_cols)", self.plan.out.dtype.value)
        self.source.add(f"nisa.dma_copy(dst=held, src={target}.vector_select(0, place))")

    def _write_sums(self, target: str) -> None:
        add = self.source.add
        self.names.tile("sums", "(rows, num_cols)", self.plan.out.dtype.value)
        with self.source.block("for c0 in range(0, num_cols, BANK):"):
            add("cols = min(BANK, num_cols - c0)")
            self.names.tile("product", "(rows, cols)", "float32", "psum")
            add("nisa.nc_matmul(dst=product, stationary=is_same, moving=tile[:, c0 : c0 + cols])")
            add(
                "nisa.tensor_tensor(dst=sums[:, c0 : c0 + cols], data1=product,"
                " data2=held[:, c0 : c0 + cols], op=nl.add)"
            )
        add(f"nisa.dma_copy(dst={target}.vector_select(0, place), src=sums)")

    def _begin_parts(self) -> None:
        """Partial results beside `out`, all 0."""
        add, dtype = self.source.add, self.plan.out.dtype.value
        self.source.note(
            "Tiles of rows are added to partial results by turns: each waits only for the last"
            " one that changed the same."
        )
        self.names.tile("zeros", "(PARTITIONS, num_cols)", dtype)
        add("nisa.memset(dst=zeros, value=0)")
        add(f"parts = [{self.out}]")
        with self.source.block(f"for _ in range({self.plan.num_sums - 1}):"):
            self.names.tile("part", "(num_rows, num_cols)", dtype, "private_hbm")
            self._fill("part", "zeros")
            add("parts.append(part)")

    def _join_parts(self) -> None:
        add, dtype = self.source.add, self.plan.out.dtype.value
        each = max(1, JOINED_BYTES // (max(self.plan.out.cols) * self.plan.out.dtype.itemsize))
        with self.source.block(f"for start, rows, each in row_blocks(num_rows, {each}):"):
            self.names.tile("total", "(rows, each, num_cols)", dtype)
            add(f"nisa.dma_copy(dst=total, src={run_of_rows('parts[0]', 'num_cols')})")
            with self.source.block("for part in parts[1:]:"):
                self.names.tile("held", "(rows, each, num_cols)", dtype)
                add(f"nisa.dma_copy(dst=held, src={run_of_rows('part', 'num_cols')})")
                add("nisa.tensor_tensor(dst=total, data1=total, data2=held, op=nl.add)")
            add(f"nisa.dma_copy(dst={run_of_rows(self.out, 'num_cols')}, src=total)")

    def _equal_rows(self) -> None:
        """The matrix of which rows of the tile have equal indices."""
        add = self.source.add
        self.source.note(
            "Rows with one index are summed in each of them, so that whichever is written last"
            " is right."
        )
        self.names.tile("places_wide", "(rows, rows)", "float32")
        add("nisa.tensor_copy(dst=places_wide, src=numbers[:, e : e + 1].broadcast(1, rows))")
        self.names.tile("places_turned", "(rows, rows)", "float32", "psum")
        add("nisa.nc_transpose(dst=places_turned, data=places_wide)")
        self.names.tile("is_same", "(rows, rows)", "float32")
        add(
            "nisa.tensor_scalar(dst=is_same, data=places_turned, op0=nl.equal,"
            f" operand0=numbers[:, e : e + 1]{self._weighed()})"
        )

    def _add_one_hot(self) -> None:
        """out[v] = sum of the rows whose index is v: products with one-hot rows, kept in PSUM."""
        plan, add = self.plan, self.source.add
        self.names.size("num_put", plan.index.rows, plan.index)
        self.names.size("num_rows", plan.out.rows, plan.out)
        self.names.size("num_cols", plan.out.cols, plan.out, from_last=True)
        self.index = self.names.view(plan.index, "num_put", "1")
        out = self.names.view(plan.out, "num_rows", "num_cols")
        self._view_rows()
        dtype = "float32" if isinstance(plan.rows, Matrix) else "bfloat16"
        each = self._rows_each(plan)
        self.names.tile("numbers", "(PARTITIONS, num_rows)", "float32")
        add("nisa.iota(dst=numbers, pattern=[[1, num_rows]])")
        self.source.note("One sum in PSUM for each 128 rows of the result and bank of columns.")
        add("sums = {}")
        block = self.source.block
        rows_loop, cols_loop = (
            "for v0 in range(0, num_rows, PARTITIONS):",
            "for c0 in range(0, num_cols, BANK):",
        )
        with block(rows_loop), block(cols_loop):
            add("shape = (min(PARTITIONS, num_rows - v0), min(BANK, num_cols - c0))")
            add('sums[f"{v0}_{c0}"] = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)')
        with self.source.block(f"for start, rows, each in row_blocks(num_put, {each}):"):
            self.source.note("Which partition takes which row does not matter to a sum.")
            self.names.tile("places", "(rows, each)", "float32")
            pattern = "pattern=[[each, rows], [1, each]], offset=start"
            add(f"nisa.dma_copy(dst=places, src={self.index}.ap({pattern}))")
            self._load_added(dtype)
            with self.source.block("for e in range(each):"):
                self.names.tile("one_hot", "(rows, num_rows)", dtype)
                add(
                    "nisa.tensor_scalar(dst=one_hot, data=numbers[:rows], op0=nl.equal,"
                    f" operand0=places[:, e : e + 1]{self._weighed()})"
                )
                with self.source.block("for v0 in range(0, num_rows, PARTITIONS):"):
                    add("size = min(PARTITIONS, num_rows - v0)")
                    with self.source.block("for c0 in range(0, num_cols, BANK):"):
                        add("cols = min(BANK, num_cols - c0)")
                        moving = "added[:, e, c0 : c0 + cols]"
                        if not isinstance(plan.rows, Matrix):
                            moving = "added[:rows, c0 : c0 + cols]"
                        add(
                            'nisa.nc_matmul(dst=sums[f"{v0}_{c0}"],'
                            f" stationary=one_hot[:, v0 : v0 + size], moving={moving})"
                        )
        self._store_sums(out)

    def _rows_each(self, plan: PickPlan) -> int:
        width = max(plan.out.cols) * plan.out.dtype.itemsize
        return max(1, min(CHUNK, CHUNK_BYTES // width))

    def _load_added(self, dtype: str) -> None:
        add, rows = self.source.add, self.plan.rows
        if self.plan.taken is not None:
            self._load_taken()
            self.names.tile("added", "(rows, each, num_cols)", dtype)
            with self.source.block("for e in range(each):"):
                self._take("added[:, e, :]")
            return
        if isinstance(rows, Matrix):
            self.names.tile("added", "(rows, each, num_cols)", dtype)
            pattern = (
                "pattern=[[each * num_cols, rows], [num_cols, each], [1, num_cols]],"
                " offset=start * num_cols"
            )
            add(f"nisa.dma_copy(dst=added, src={self.rows}.ap({pattern}))")
            return
        assert rows is not None
        self.names.tile("added", "(PARTITIONS, num_cols)", dtype)
        add(f"nisa.memset(dst=added, value={self.scope.number(rows)})")

    def _store_sums(self, out: str) -> None:
        plan, add = self.plan, self.source.add
        with self.source.block("for v0 in range(0, num_rows, PARTITIONS):"):
            add("size = min(PARTITIONS, num_rows - v0)")
            self.names.tile("tile", "(size, num_cols)", plan.out.dtype.value)
            start = plan.table
            if isinstance(start, Matrix):
                self.names.tile("held", "(size, num_cols)", start.dtype.value)
                view = self.names.view(start, "num_rows", "num_cols")
                add(f"nisa.dma_copy(dst=held, src={view}[v0 : v0 + size, :])")
            with self.source.block("for c0 in range(0, num_cols, BANK):"):
                add("cols = min(BANK, num_cols - c0)")
                target = "dst=tile[:, c0 : c0 + cols]"
                total = 'sums[f"{v0}_{c0}"]'
                if isinstance(start, Matrix):
                    add(
                        f"nisa.tensor_tensor({target}, data1={total},"
                        " data2=held[:, c0 : c0 + cols], op=nl.add)"
                    )
                elif any(start):
                    number = self.scope.number(start)
                    add(
                        f"nisa.tensor_scalar({target}, data={total}, op0=nl.add, operand0={number})"
                    )
                else:
                    add(f"nisa.tensor_copy({target}, src={total})")
            add(f"nisa.dma_copy(dst={out}[v0 : v0 + size, :], src=tile)")


class RunningPrinter:
    """Prints one RunningPlan into a function body."""

    def __init__(self, plan: RunningPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.names = Names(source, scope)

    def print(self) -> None:
        """The whole stage."""
        plan, add = self.plan, self.source.add
        self.names.size("num_rows", plan.source.rows, plan.source)
        self.names.size("num_cols", plan.source.cols, plan.source, from_last=True)
        source = self.names.view(plan.source, "num_rows", "num_cols")
        out = self.names.view(plan.out, "num_rows", "num_cols")
        with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_rows - r0)")
            self.names.tile("data", "(rows, num_cols)", plan.source.dtype.value)
            add(f"nisa.dma_copy(dst=data, src={source}[r0 : r0 + rows, :])")
            self.names.tile("tile", "(rows, num_cols)", plan.out.dtype.value)
            add(
                "nisa.tensor_scalar_cumulative(dst=tile, src=data, op0=nl.multiply, imm0=1.0,"
                f" op1=nl.{plan.op})"
            )
            add(f"nisa.dma_copy(dst={out}[r0 : r0 + rows, :], src=tile)")
