"""Plans a product together with the pass over its rows that follows: they never leave SBUF between.

Law: the pass reads the product's rows as they are made, whole, and nobody else reads them. Only a
product whose w stays in SBUF makes whole rows at a time; anything else is two stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.align import joins
from nki_agent.builtin.balance import Estimate, balance, find_cuts
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.choices import Choices, Phases
from nki_agent.builtin.graph import ELEMENTWISE, PRODUCTS, Graph, Op, UnsupportedError
from nki_agent.builtin.plan import MatmulPlan, RowsPlan, RowTail, Stored
from nki_agent.builtin.products import MatmulPlanner
from nki_agent.builtin.row_bytes import bytes_of
from nki_agent.builtin.row_space import Space
from nki_agent.builtin.rows import RowsPlanner
from nki_agent.builtin.shortening import SHORT, with_tiles
from nki_agent.builtin.stages import Group, StageKind
from nki_agent.builtin.tile_steps import (
    AffineSelect,
    Cut,
    Iota,
    Load,
    Step,
    Store,
    Tile,
    step_writes,
)
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

WHOLE = "whole"
"""What the rows are called that are not stored."""
BUFFERS = 3
"""Rows of so many tiles fit: one is multiplied, and two are on their way out."""


def find_tails(graph: Graph, groups: Sequence[Group]) -> list[tuple[Group, Group]]:
    """Products, each with the pass over rows that alone reads what it makes."""
    users = graph.users()
    found = []
    for product in groups:
        if product.kind is not StageKind.MATMUL or product.loop or product.tail:
            continue
        made = [n for n in product.nodes if set(users[n]) - set(product.nodes)]
        if len(made) != 1:
            continue
        readers = {r for n in made for r in _seen_through(graph, users, n)} - set(product.nodes)
        for rows in groups:
            is_pass = rows.kind is StageKind.ROWS and readers <= set(rows.nodes)
            if is_pass and not (rows.loop or rows.fold or rows.lookups):
                found.append((product, rows))
    return found


def _seen_through(graph: Graph, users: Mapping[int, Sequence[int]], node: int) -> set[int]:
    found: set[int] = set()
    for user in users[node]:
        is_view = user >= 0 and graph[user].op is Op.VIEW
        found |= set(users[user]) if is_view else {user}
    return found


def with_tail(groups: Sequence[Group], product: Group, rows: Group) -> list[Group]:
    """The stages where the product takes the pass over its rows, which may need later stages."""
    joined = replace(product, tail=rows.nodes)
    return [joined if g is rows else g for g in groups if g is not product]


class ProductRowsPlanner(MatmulPlanner):
    """Plans one product with its tail."""

    def __init__(
        self,
        captured: Captured,
        group: Group,
        *,
        buffers: Mapping[int, Stored],
        outputs: Sequence[int],
        chip: ChipSpec,
        choices: Choices,
    ) -> None:
        """`outputs` are those of the tail. Rows are rounded where they would be to be stored."""
        graph, users = captured.graph, captured.graph.users()
        self.made = next(n for n in group.nodes if set(users[n]) - set(group.nodes))
        node = graph[self.made]
        is_short = choices.short_tiles and node.dtype in SHORT
        is_short &= node.op in {*ELEMENTWISE, *PRODUCTS}
        stored = {**buffers, self.made: Stored(WHOLE, node.dtype if is_short else DType.FLOAT32)}
        product = Group(StageKind.MATMUL, group.nodes)
        super().__init__(captured, product, buffers=stored, outputs=[self.made], chip=chip)
        tail = Group(StageKind.ROWS, group.tail)
        self.rows = RowsPlanner(captured, tail, buffers=stored, outputs=outputs, chip=chip)
        self.rows.tells_rows = True

    def plan(self, choices: Choices) -> MatmulPlan:
        """Plan the stage.

        Raises:
            UnsupportedError: the pass needs its rows in another order, or there is no room.
        """
        plan = super().plan(choices)
        if not plan.keep_w or plan.is_step:
            raise self._refusal("its rows are not made whole")
        self.rows.choices = choices
        made = (tile for steps in plan.levels for step in steps for tile in step_writes(step))
        self.rows.taken = tuple(t.name for t in made if t != _stored(plan).src)
        rows = self.rows.lower_to(self._space_of_rows(), None)
        last = rows.levels[-1]
        loads = [s for s in last if isinstance(s, Load) and s.access.tensor == WHOLE]
        is_plain = len(loads) == 1 and not rows.after and all(map(_knows_its_rows, last))
        if not is_plain or self._is_too_large(plan, rows):
            raise self._refusal("what follows does not fit beside it")
        return self._joined(plan, rows, loads[0])

    def _refusal(self, why: str) -> UnsupportedError:
        return UnsupportedError(self.node.origin, why)

    def _space_of_rows(self) -> Space:
        """The loops, rows and columns of the product as those of the pass."""
        x_id, w_id = self.node.inputs
        space = self._merge(self._side(x_id), self._side(w_id))
        rows, sizes = self.rows, tuple(a.sizes for a in self.rows.alignments)
        reads = [s for s in rows.operands if self.graph.base(s).id == self.made]
        if sizes != space.sizes or not rows.reduced <= {-1} or len(reads) != 1:
            raise self._refusal("the pass has other axes")
        walks = [*(rows.walks(s, axes) for s, axes in rows.operands.items())]
        walks += [rows.output_walks(node) for node in rows.outputs]
        by_set = [[walk[i] for walk in walks] for i in range(len(sizes))]
        mine = rows.walks(reads[0], rows.operands[reads[0]])
        own = self._output_walks(self.made)
        for group in (*space.batch, space.rows):
            for count, axis in enumerate(group[1:], start=1):
                if not joins(group[:count], axis, sizes, by_set):
                    raise self._refusal("the pass walks its rows in another order")
        for size, one, other in zip(sizes, mine, own, strict=True):
            if one.offset or any(
                one.strides.get(a, 0) != step for a, step in other.strides.items() if size[a] != 1
            ):
                raise self._refusal("the pass reads its rows in another order")
        return Space((*space.batch, space.rows, (-1,)), sizes, is_flat=False)

    def _is_too_large(self, plan: MatmulPlan, rows: RowsPlan) -> bool:
        """Whether rows, w and the turned rows of x need more than SBUF has."""
        depth = -(-max(plan.k) // self.chip.partitions) * plan.dtype.itemsize
        operands = depth * (max(plan.n) + 2 * plan.row_group)
        if plan.x_each == 1:
            operands += 2 * max(plan.k) * plan.dtype.itemsize
        needed = operands + bytes_of(rows, buffers=BUFFERS)
        return needed > self.chip.sbuf_usable_partition_bytes * self.rows.choices.sbuf_share

    def _joined(self, plan: MatmulPlan, rows: RowsPlan, whole: Load) -> MatmulPlan:
        store = _stored(plan)
        block = replace(store.src, name=f"{WHOLE}_block")
        new: dict[Tile, Tile] = {store.src: block}
        last = self._spread_block(
            [with_tiles(step, new) for step in plan.levels[-1] if step is not store], rows
        )
        cuts = self._cuts([with_tiles(step, {block: whole.dst}) for step in last], rows)
        tail = RowTail(whole=whole, block=block, levels=rows.levels, cuts=cuts)
        title = f"{plan.title}, {rows.title}" if plan.title else rows.title
        return replace(plan, title=title, levels=(*plan.levels[:-1], last), tail=tail)

    def _cuts(self, leaving: Sequence[Step], rows: RowsPlan) -> tuple[int, ...]:
        """Where phases of the pass begin, also for engines that have the product's tiles before."""
        if self.rows.choices.phases is Phases.NONE:
            return rows.cuts
        estimate = Estimate(self.chip, max(rows.cols), len(rows.cols))
        found = find_cuts([*leaving, *rows.levels[-1]], estimate, Phases.NEEDED)
        more = {cut - len(leaving) for cut in found if cut > len(leaving)}
        return rows.cuts if more <= set(rows.cuts) else tuple(sorted({*rows.cuts, *more}))

    def _spread_block(self, steps: list[Step], rows: RowsPlan) -> tuple[Step, ...]:
        """Give what leaves PSUM to engines that have time beside the pass."""
        sharing = self.rows.choices.sharing
        estimate = Estimate(self.chip, max(rows.cols), len(rows.cols), shares=sharing)
        names = {tile.name: 1 for level in rows.levels for s in level for tile in step_writes(s)}
        busy = estimate.loads(rows.levels[-1])
        return tuple(balance(steps, estimate, floor_ns=0.0, scratch=names, busy=busy))


def _stored(plan: MatmulPlan) -> Store:
    """What would store the product."""
    return next(step for step in plan.levels[-1] if isinstance(step, Store))


def _knows_its_rows(step: Step) -> bool:
    """Whether a step needs no more of where it is than the number of its tile's first row."""
    if not isinstance(step, Iota | AffineSelect):
        return not isinstance(step, Cut)
    *loops, _, _ = step.access.strides
    is_fixed = all(len(set(size)) == 1 for size in (*step.access.strides, step.access.offset))
    return is_fixed and not any(any(size) for size in loops)
