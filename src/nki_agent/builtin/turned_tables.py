"""Rows that indices name, taken from a table that lies turned in SBUF.

Law: a column of the table is one partition, and a GpSimd core takes the same places of its sixteen
partitions in one instruction. So no descriptor is made for a row: what is taken is turned back on
the Tensor Engine, 128 rows at a time. A core reads its indices down its partitions first; products
with ones and zeros put them so, the same for every core.
Not covered: tables that do not fit half of SBUF, and rows longer than a PSUM bank.
"""

from __future__ import annotations

from nki_agent.builtin.plan import BagPlan, Matrix, PickPlan, Plan, Stage
from nki_agent.builtin.print_picks import Names, run_of_rows
from nki_agent.builtin.text import Scope, Source

CORE = "CORE = 16  # partitions that read the same places"
LOAD_TABLE = '''def load_table(dst, src):
    """Loads src [M, N] and turns it on the Tensor Engine into dst [128, block of N, M]."""
    num_rows, num_cols = src.shape
    if num_cols % CORE:
        # A core reads all of its partitions.
        nisa.memset(dst=dst[:, num_cols // PARTITIONS, :], value=0)
    for start, rows, each in row_blocks(num_rows, max(1, min(4, BANK // num_cols))):
        tile = nl.ndarray((rows, each, num_cols), dtype=src.dtype, buffer=nl.sbuf)
        run = src[start : start + rows * each, :]
        nisa.dma_copy(dst=tile, src=run.reshape_dim(0, (rows, each)))
        for k in range(dst.shape[1]):
            size = min(PARTITIONS, num_cols - k * PARTITIONS)
            turned = nl.ndarray((size, each, rows), dtype=src.dtype, buffer=nl.psum)
            for e in range(each):
                cols = tile[:, e, k * PARTITIONS : k * PARTITIONS + size]
                nisa.nc_transpose(dst=turned[:, e, :], data=cols)
            block = dst[:size, k, start : start + rows * each].reshape_dim(1, (rows, each))
            leave_both(dst=block.permute((0, 2, 1)), src=turned)


def leave_both(dst, src):
    """Copies src [P, K, N] out of PSUM, half of the columns on each of two engines."""
    half = src.shape[2] // 2
    if half:
        nisa.activation(dst=dst[:, :, :half], op=nl.copy, data=src[:, :, :half])
    nisa.tensor_copy(dst=dst[:, :, half:], src=src[:, :, half:])
'''
SPREAD = '''def choose_lanes():
    """Ones where a partition's place goes to a lane [128, group, 128], the same in each core."""
    groups = PARTITIONS // CORE
    distances = nl.ndarray((PARTITIONS, groups, groups, CORE), dtype=nl.int32, buffer=nl.sbuf)
    pattern = [[-CORE, groups], [0, groups], [-1, CORE]]
    nisa.iota(dst=distances, pattern=pattern, channel_multiplier=1)
    chosen = nl.ndarray((PARTITIONS, groups, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=chosen, data=distances, op0=nl.equal, operand0=0.0)
    return chosen


def spread_places(places, chosen):
    """Puts columns of places [128, N] in the order in which cores read them: [128, N, group]."""
    num_cols, groups = places.shape[1], chosen.shape[1]
    numbers = nl.ndarray(places.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=numbers, src=places)
    spread = nl.ndarray((PARTITIONS, num_cols, groups), dtype=nl.uint16, buffer=nl.sbuf)
    for c0 in range(0, num_cols, BANK // groups):
        cols = min(BANK // groups, num_cols - c0)
        lanes = nl.ndarray((PARTITIONS, groups, cols), dtype=nl.float32, buffer=nl.psum)
        for g in range(groups):
            nisa.nc_matmul(
                dst=lanes[:, g, :],
                stationary=chosen[:, g, :],
                moving=numbers[:, c0 : c0 + cols],
                is_stationary_onezero=True,
            )
        put = spread[:, c0 : c0 + cols, :].permute((0, 2, 1))
        nisa.activation(dst=put, op=nl.copy, data=lanes)
    return spread


def take_lanes(table, spread, num_cols):
    """The columns of the rows that places name: [128, block of columns, 128 for each of them]."""
    count, groups = spread.shape[1:]
    shape = (PARTITIONS, table.shape[1], count * PARTITIONS)
    found = nl.ndarray(shape, dtype=table.dtype, buffer=nl.sbuf)
    for k in range(table.shape[1]):
        left = (num_cols - k * PARTITIONS + CORE - 1) // CORE * CORE
        lanes = min(PARTITIONS, left)
        nisa.local_gather(
            dst=found[:lanes, k, :],
            src_buffer=table[:lanes, k, :],
            index=spread[:lanes].reshape((lanes, count * groups)),
        )
    return found


def turn_back(dst, found, number):
    """Writes 128 of the rows that were taken, those of the given number, into dst [128, N]."""
    num_cols = dst.shape[1]
    for k in range(found.shape[1]):
        size = min(PARTITIONS, num_cols - k * PARTITIONS)
        nisa.nc_transpose(
            dst=dst[:, k * PARTITIONS : k * PARTITIONS + size],
            data=found[:size, k, number * PARTITIONS : (number + 1) * PARTITIONS],
        )
'''
TAKE = '''def take_rows(out, table, spread):
    """Takes rows of a table [128, block of columns, M] into out [rows, places of each, N]."""
    rows, each, num_cols = out.shape
    tile = nl.ndarray(out.shape, dtype=table.dtype, buffer=nl.sbuf)
    together = BANK // num_cols
    for e0 in range(0, each, CORE):
        count = min(CORE, each - e0)
        found = take_lanes(table, spread[:, e0 : e0 + count, :], num_cols)
        for n0 in range(0, count, together):
            some = min(together, count - n0)
            turned = nl.ndarray((PARTITIONS, some, num_cols), dtype=table.dtype, buffer=nl.psum)
            for n in range(some):
                turn_back(turned[:, n, :], found, n0 + n)
            put = tile[:, e0 + n0 : e0 + n0 + some, :]
            leave_both(dst=put, src=turned[:rows])
    nisa.dma_copy(dst=out, src=tile)
'''
BAG = '''def add_bags(out, table, spread, weights):
    """Adds up rows of a table [128, block of columns, M], each times its weight."""
    rows, num_cols = out.shape
    bag_size = weights.shape[1]
    sums = []
    for e0 in range(0, bag_size, CORE):
        count = min(CORE, bag_size - e0)
        found = take_lanes(table, spread[:, e0 : e0 + count, :], num_cols)
        for e in range(e0, e0 + count):
            tile = nl.ndarray((PARTITIONS, num_cols), dtype=table.dtype, buffer=nl.psum)
            turn_back(tile, found, e - e0)
            share = weights[:, e : e + 1]
            # Two sums by turns: neither waits for its last step.
            if e < 2:
                start = nl.ndarray((rows, num_cols), dtype=nl.float32, buffer=nl.sbuf)
                nisa.activation(dst=start, op=nl.copy, data=tile[:rows], scale=share)
                sums.append(start)
            else:
                nisa.scalar_tensor_tensor(
                    dst=sums[e % 2],
                    data=tile[:rows],
                    op0=nl.multiply,
                    operand0=share,
                    op1=nl.add,
                    operand1=sums[e % 2],
                )
    total = sums[0]
    if bag_size > 1:
        total = nl.ndarray((rows, num_cols), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total, data1=sums[0], data2=sums[1], op=nl.add)
    nisa.dma_copy(dst=out, src=total)
'''
TAKEN_EACH = 32
"""Places of a partition that are loaded together."""


def takes_turned(stage: Stage) -> bool:
    """Whether a stage is printed here."""
    return isinstance(stage, BagPlan | PickPlan) and stage.is_turned


def turned_table_helpers(plan: Plan) -> list[str]:
    """The helper functions that these stages call."""
    stages = [s for s in plan.stages if takes_turned(s)]
    bags = any(isinstance(s, BagPlan) for s in stages)
    picks = any(isinstance(s, PickPlan) for s in stages)
    return [LOAD_TABLE, SPREAD] * bool(stages) + [TAKE] * picks + [BAG] * bags


class TurnedTablePrinter:
    """Prints one stage that takes rows into a function body."""

    def __init__(self, plan: BagPlan | PickPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.names = Names(source, scope)

    def print(self) -> None:
        """The whole stage: places are put in order one block ahead of the rows."""
        plan, add, names = self.plan, self.source.add, self.names
        table = plan.table
        assert isinstance(table, Matrix)
        names.size("num_rows", table.rows, table)
        names.size("num_cols", table.cols, table, from_last=True)
        read = names.view(table, "num_rows", "num_cols")
        tensors = self._bag_tensors(plan) if isinstance(plan, BagPlan) else self._tensors(plan)
        add("col_blocks = (num_cols + PARTITIONS - 1) // PARTITIONS")
        names.tile("turned", "(PARTITIONS, col_blocks, num_rows)", table.dtype.value)
        add(f"load_table(turned, {read})")
        add("chosen = choose_lanes()")
        self.source.note("The next places are put in order before rows are taken by these.")
        add("ready = []")
        body = self._bags if isinstance(plan, BagPlan) else self._rows
        function = body(*tensors)
        with self.source.block("for block in ready:"):
            add(f"{function}(*block)")

    def _tensors(self, plan: PickPlan) -> tuple[str, ...]:
        self.names.size("num_taken", plan.index.rows, plan.index)
        index = self.names.view(plan.index, "num_taken", "1")
        return index, self.names.view(plan.out, "num_taken", "num_cols")

    def _bag_tensors(self, plan: BagPlan) -> tuple[str, ...]:
        names = self.names
        names.size("num_bags", plan.index.rows, plan.index)
        names.size("bag_size", plan.index.cols, plan.index, from_last=True)
        read = [names.view(m, "num_bags", "bag_size") for m in (plan.index, plan.weight)]
        return (*read, names.view(plan.out, "num_bags", "num_cols"))

    def _rows(self, index: str, out: str) -> str:
        add = self.source.add
        with self.source.block(f"for start, rows, each in row_blocks(num_taken, {TAKEN_EACH}):"):
            self._places("each", f"{index}.ap(pattern=[[each, rows], [1, each]], offset=start)")
            add(f"ready.append(({run_of_rows(out, 'num_cols')}, turned, spread))")
            self._run_behind("take_rows")
        return "take_rows"

    def _bags(self, index: str, weight: str, out: str) -> str:
        add = self.source.add
        with self.source.block("for r0 in range(0, num_bags, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_bags - r0)")
            self._places("bag_size", f"{index}[r0 : r0 + rows, :]")
            self.names.tile("weights", "(rows, bag_size)", "float32")
            add(f"nisa.dma_copy(dst=weights, src={weight}[r0 : r0 + rows, :])")
            add(f"ready.append(({out}[r0 : r0 + rows, :], turned, spread, weights))")
            self._run_behind("add_bags")
        return "add_bags"

    def _places(self, cols: str, source: str) -> None:
        """Loads places, and puts them in the order in which cores read them."""
        self.names.tile("places", f"(PARTITIONS, {cols})", "int32")
        with self.source.block("if rows < PARTITIONS:"):
            self.source.add("nisa.memset(dst=places, value=0)")
        self.source.add(f"nisa.dma_copy(dst=places[:rows], src={source})")
        self.source.add("spread = spread_places(places, chosen)")

    def _run_behind(self, function: str) -> None:
        with self.source.block("if len(ready) > 1:"):
            self.source.add(f"{function}(*ready.pop(0))")
