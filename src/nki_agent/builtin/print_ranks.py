"""Prints the ranking of rows: eight largest at a time, until enough are found.

Rows longer than the search instructions take are cut; the best of each piece are ranked again,
with their places beside them.
"""

from __future__ import annotations

from nki_agent.builtin.picks import PIECE
from nki_agent.builtin.plan import RankPlan
from nki_agent.builtin.print_network import print_network
from nki_agent.builtin.print_picks import Names, run_of_rows
from nki_agent.builtin.text import Scope, Source

RANK = '''def rank(searches):
    """Writes the largest elements of each row of data into values, in descending order.

    A search is (values, places, data); what is found is overwritten in data. Several go on by
    turns: none waits for its last step.
    """
    count = searches[0][0].shape[1]
    for k0 in range(0, count, 8):
        for values, _, data in searches:
            nisa.max8(dst=values[:, k0 : k0 + 8], src=data)
        for values, places, data in searches:
            best, found = values[:, k0 : k0 + 8], places[:, k0 : k0 + 8]
            if k0 + 8 == count:
                nisa.nc_find_index8(dst=found, data=data, vals=best)
            else:
                # One pass finds the places and clears them for the next eight.
                nisa.nc_match_replace8(dst=data, data=data, vals=best, imm=LOWEST, dst_idx=found)
'''
RANK_GROUPS = '''def rank_groups(searches, size):
    """As rank, for long rows: what is wanted lies in the groups of `size` with the largest maxima.

    So many groups as elements are wanted are gathered; the others hold none of them.
    """
    firsts = []
    for values, _, data in searches:
        rows, groups = data.shape[0], data.shape[1] // size
        kept = min(values.shape[1], groups)
        maxima = nl.ndarray((rows, groups), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(
            dst=maxima, op=nl.maximum, data=data.reshape((rows, groups, size)), axis=2
        )
        best = nl.ndarray((rows, kept), dtype=nl.float32, buffer=nl.sbuf)
        chosen = nl.ndarray((rows, kept), dtype=nl.uint32, buffer=nl.sbuf)
        firsts.append((best, chosen, maxima))
    rank(firsts)
    seconds, columns = [], []
    for s in range(len(searches)):
        values, _, data = searches[s]
        chosen = firsts[s][1]
        rows, kept = chosen.shape
        offsets = nl.ndarray((rows, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.iota(dst=offsets, pattern=[[1, size]])
        wanted = nl.ndarray((rows, kept, size), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=wanted,
            data=chosen.expand_dim(2).broadcast(2, size),
            op0=nl.multiply,
            operand0=float(size),
            op1=nl.add,
            operand1=offsets.expand_dim(1).broadcast(1, kept),
        )
        wanted = wanted.reshape((rows, kept * size))
        members = nl.ndarray((rows, kept * size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.nc_n_gather(dst=members, data=data, indices=wanted)
        found = nl.ndarray(values.shape, dtype=nl.uint32, buffer=nl.sbuf)
        seconds.append((values, found, members))
        columns.append(wanted)
    rank(seconds)
    for s in range(len(searches)):
        nisa.nc_n_gather(dst=searches[s][1], data=columns[s], indices=seconds[s][1])
'''
EIGHT = 8
"""Values that one search finds."""
FEW = 64
"""Columns of rows that may be fewer than eight at sizes that nobody named."""
LOWEST = "LOWEST = -3.4028235e38  # below every value that is ranked"
BEHIND = (
    "BEHIND = -3.4e38  # what groups have behind a row's end: above LOWEST, so it is found once"
)


class RankPrinter:
    """Prints one RankPlan into a function body."""

    def __init__(self, plan: RankPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.names = Names(source, scope)

    def print(self) -> None:
        """The whole stage."""
        plan, add = self.plan, self.source.add
        some = plan.values or plan.places
        assert some is not None
        self.names.size("num_rows", plan.source.rows, plan.source)
        self.names.size("num_cols", plan.source.cols, plan.source, from_last=True)
        if all(n == 1 for n in plan.count):
            add("num_kept = 1")
        else:
            self.names.size("num_kept", plan.count, some, from_last=True)
        source = self.names.view(plan.source, "num_rows", "num_cols")
        if plan.is_network:
            print_network(plan, source, self.source, self.names)
            return
        self.values = self.names.view(plan.values, "num_rows", "num_kept") if plan.values else ""
        self.places = self.names.view(plan.places, "num_rows", "num_kept") if plan.places else ""
        self.source.note("The search goes by eights, and takes rows of at least eight.")
        add("count = (num_kept + 7) // 8 * 8")
        if plan.rows_each is not None:
            self._packed(source)
            return
        if max(plan.source.cols) > PIECE:
            with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
                add("rows = min(PARTITIONS, num_rows - r0)")
                self._tiles()
                self._pieces(source)
                self._store()
            return
        self._by_turns(source)

    def _tiles(self) -> None:
        self.names.tile("values", "(rows, count)", "float32")
        self.names.tile("places", "(rows, count)", "uint32")

    def _by_turns(self, source: str) -> None:
        """Tiles of rows, some together: none of them waits for its last step."""
        plan, add, block = self.plan, self.source.add, self.source.block
        if plan.group > 1:
            self.source.note("Rows are whole groups, and so many that eight can be chosen.")
            step = EIGHT * plan.group
            add(f"width = (num_cols + {step - 1}) // {step} * {step}")
        call = "rank(searches)" if plan.group == 1 else f"rank_groups(searches, {plan.group})"
        if plan.together == 1:
            with block("for r0 in range(0, num_rows, PARTITIONS):"):
                self._load_tile(source)
                add("searches = [(values, places, data)]")
                add(call)
                self._store()
            return
        with block(f"for g0 in range(0, num_rows, {plan.together} * PARTITIONS):"):
            add("searches = []")
            stop = f"min(g0 + {plan.together} * PARTITIONS, num_rows)"
            with block(f"for r0 in range(g0, {stop}, PARTITIONS):"):
                self._load_tile(source)
                add("searches.append((values, places, data))")
            add(call)
            with block("for s in range(len(searches)):"):
                add("values, places, data = searches[s]")
                add("r0, rows = g0 + s * PARTITIONS, data.shape[0]")
                self._store()

    def _load_tile(self, source: str) -> None:
        self.source.add("rows = min(PARTITIONS, num_rows - r0)")
        self._tiles()
        self._load(source, "num_cols", "")

    def _packed(self, source: str) -> None:
        """Short rows: several for each partition, ranked one after the other."""
        plan, add, tile = self.plan, self.source.add, self.names.tile
        blocks = f"row_blocks(num_rows, {plan.rows_each})"
        with self.source.block(f"for start, rows, each in {blocks}:"):
            is_short = min(plan.source.cols) < FEW
            tile(
                "data", f"(rows, each, {'max(num_cols, 8)' if is_short else 'num_cols'})", "float32"
            )
            if is_short:
                self._fill("num_cols")
            part = "data[:, :, :num_cols]" if is_short else "data"
            add(f"nisa.dma_copy(dst={part}, src={run_of_rows(source, 'num_cols')})")
            self._negate("data")
            tile("values", "(rows, each, count)", "float32")
            tile("places", "(rows, each, count)", "uint32")
            add("searches = []")
            with self.source.block("for e in range(each):"):
                add("searches.append((values[:, e, :], places[:, e, :], data[:, e, :]))")
            add("rank(searches)")
            if plan.values is not None:
                self._negate("values")
                target = run_of_rows(self.values, "num_kept")
                add(f"nisa.dma_copy(dst={target}, src={self._kept('values', 'float32')})")
            if plan.places is not None:
                target = run_of_rows(self.places, "num_kept")
                add(f"nisa.dma_copy(dst={target}, src={self._kept('places', 'uint32')})")

    def _kept(self, tile: str, dtype: str) -> str:
        """What is stored of each search: beside each other, so that runs are long."""
        part = f"{tile}[:, :, :num_kept]"
        if all(count % EIGHT == 0 for count in self.plan.count):
            return part
        self.names.tile(f"{tile}_kept", "(rows, each, num_kept)", dtype)
        self.source.add(f"nisa.tensor_copy(dst={tile}_kept, src={part})")
        return f"{tile}_kept"

    def _negate(self, tile: str) -> None:
        if not self.plan.is_descending:
            self.source.add(
                f"nisa.tensor_scalar(dst={tile}, data={tile}, op0=nl.multiply, operand0=-1.0)"
            )

    def _load(self, source: str, cols: str, start: str) -> None:
        plan, add = self.plan, self.source.add
        window = f"{start} : {start} + {cols}" if start else ":"
        if plan.group > 1:
            self.names.tile("data", "(rows, width)", "float32")
            with self.source.block("if width > num_cols:"):
                behind = "BEHIND" if plan.is_descending else "-BEHIND"
                add(f"nisa.memset(dst=data[:, num_cols:], value={behind})")
            add(f"nisa.dma_copy(dst=data[:, :num_cols], src={source}[r0 : r0 + rows, :])")
        elif min(plan.source.cols) < FEW:
            self._load_wide(source, cols, window)
        else:
            self.names.tile("data", f"(rows, {cols})", "float32")
            add(f"nisa.dma_copy(dst=data, src={source}[r0 : r0 + rows, {window}])")
        self._negate("data")

    def _load_wide(self, source: str, cols: str, window: str) -> None:
        """Rows of fewer than eight are filled up."""
        add = self.source.add
        self.names.tile("data", f"(rows, max({cols}, 8))", "float32")
        self._fill(cols)
        add(f"nisa.dma_copy(dst=data[:, :{cols}], src={source}[r0 : r0 + rows, {window}])")

    def _fill(self, cols: str) -> None:
        """What a row of fewer than eight has behind its end."""
        lowest = "LOWEST" if self.plan.is_descending else "-LOWEST"
        with self.source.block(f"if {cols} < {EIGHT}:"):
            self.source.add(f"nisa.memset(dst=data, value={lowest})")

    def _pieces(self, source: str) -> None:
        """The best of each piece, then the best of those."""
        add = self.source.add
        add("pieces = (num_cols + PIECE - 1) // PIECE")
        add("width = (num_cols + pieces - 1) // pieces")
        self.names.tile("best_values", "(rows, pieces * count)", "float32")
        self.names.tile("best_places", "(rows, pieces * count)", "uint32")
        with self.source.block("for p in range(pieces):"):
            add("cols = min(width, num_cols - p * width)")
            self._load(source, "cols", "p * width")
            add("found = best_places[:, p * count : (p + 1) * count]")
            add("rank([(best_values[:, p * count : (p + 1) * count], found, data)])")
            self.source.note("Places in the row, not in the piece.")
            add("nisa.tensor_scalar(dst=found, data=found, op0=nl.add, operand0=float(p * width))")
        self.names.tile("chosen", "(rows, count)", "uint32")
        add("rank([(values, chosen, best_values)])")
        add("nisa.nc_n_gather(dst=places, data=best_places, indices=chosen)")

    def _store(self) -> None:
        plan, add = self.plan, self.source.add
        if plan.values is not None:
            self._negate("values")
            add(f"nisa.dma_copy(dst={self.values}[r0 : r0 + rows, :], src=values[:, :num_kept])")
        if plan.places is not None:
            add(f"nisa.dma_copy(dst={self.places}[r0 : r0 + rows, :], src=places[:, :num_kept])")
