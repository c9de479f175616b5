"""Plans loops over time in which each row of the state goes its own way: delta rules and the like.

Law: a step is elementwise but for sums and the like along the rows, so that tiles of rows are
independent of each other and the loop over time is the innermost one; nothing that only the next
step needs leaves SBUF. Any other loop is refused here and goes through HBM step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nki_agent.builtin.align import (
    Alignment,
    Axes,
    Walk,
    align,
    group_size,
    group_stride,
    merge_axes,
    moving_axes,
    outside_operands,
    share_axes,
    varying,
    walk_of,
    walk_of_result,
)
from nki_agent.builtin.balance import Estimate, balance
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import ELEMENTWISE, SOURCES, Op, contiguous_strides
from nki_agent.builtin.lower import Lowering
from nki_agent.builtin.pending import Place, fold_negations
from nki_agent.builtin.plan import Stored
from nki_agent.builtin.psum_tiles import find_psum_tiles, in_psum
from nki_agent.builtin.resident_plan import ResidentRowsPlan, RowOperand, RowState
from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.tile_steps import Access, Copy, Kind, Tile, step_writes
from nki_agent.builtin.titles import describe
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

TILE_ELEMS = 512
"""Elements of a tile in one partition, unless one row has more: few enough for many tiles."""
INPUT_ELEMS = 4096
"""Elements of an operand that are loaded for several steps at a time, in one partition."""
STEP = 1
"""The level of what each step computes."""


class RowLoop:
    """The nodes of a loop along shared axes; `fits` says whether it is of this form."""

    def __init__(self, captured: Captured, nodes: Sequence[int]) -> None:
        self.captured = captured
        self.graph = captured.graph
        self.nodes = nodes
        self.inside = frozenset(nodes)
        written = [n for n in self.graph.nodes if n.op is Op.PARTS and n.name]
        self.histories = {n.name: n for n in written if n.inputs[1] in self.inside}
        self.alignments: list[Alignment] = []
        self.operands: dict[int, Axes] = {}
        self.sizes: tuple[dict[int, int], ...] = ()
        self.groups: list[tuple[int, ...]] = []

    def fits(self, chip: ChipSpec) -> bool:
        """Whether the loop is of this form, and small enough; finds axes and operands."""
        ops = ELEMENTWISE | {Op.REDUCE}
        if any(self.graph[n].op not in ops for n in self.nodes) or not self.histories:
            return False
        found = [align(graph, self.nodes) for graph in self.captured.graphs]
        self.alignments = [a for a in found if a is not None]
        if len(self.alignments) != len(found):
            return False
        share_axes(self.alignments)
        self.sizes = tuple(a.sizes for a in self.alignments)
        gone = {a for found in self.alignments for axes in found.reduced for a in axes}
        if not gone <= {-1} or not self._find_operands():
            return False
        if not all(self._is_own_state(source) for source in self.operands):
            return False
        room = chip.sbuf_usable_partition_bytes
        width = max(TILE_ELEMS, *(size[-1] for size in self.sizes))
        loads = len(self.operands) * max(INPUT_ELEMS, width)
        return (loads + 2 * len(self.nodes) * width) * DType.FLOAT32.itemsize <= room

    def _find_operands(self) -> bool:
        """The values from outside; False where one is read along two axes, or by position."""
        for source, axes in outside_operands(self.graph, self.nodes, self.alignments[0]):
            node = self.graph[source]
            mine = axes[len(axes) - len(node.shape) :]
            known = self.operands.setdefault(source, mine)
            pairs = zip(known, mine, node.shape, strict=True)
            is_float = node.dtype.is_float and node.op is not Op.IOTA
            if any(a != b for a, b, n in pairs if n != 1) or not is_float or not node.shape:
                return False
        return True

    def _is_own_state(self, source: int) -> bool:
        """Whether an operand is no state, or a row of it is read by the row that writes it."""
        base = self.graph.base(source)
        if base.op is not Op.STATE:
            return base.op not in SOURCES - {Op.INPUT}
        if base.name not in self.histories:
            return False
        written = self.histories[base.name].inputs[1]
        for graph, found in zip(self.captured.graphs, self.alignments, strict=True):
            view, whole = graph[source], graph[base.id]
            if view.offset or view.shape[1:] != whole.shape[1:]:
                return False
            if view.op is not Op.VIEW or view.strides != contiguous_strides(whole.shape):
                return False
            axes = zip(found.axes[written], self.operands[source], view.shape, strict=True)
            if any(a != b for a, b, size in axes if size != 1):
                return False
        return True

    # -- axes -------------------------------------------------------------------------------------
    @property
    def time(self) -> int:
        """The axis of the steps."""
        return self.alignments[0].order[0]

    def walks(self, source: int) -> list[Walk]:
        """How an operand runs along the axes at each shape set."""
        pairs = zip(self.captured.graphs, self.alignments, strict=True)
        return [walk_of(graph, source, self.operands[source], found) for graph, found in pairs]

    def written_walks(self, node: int, stored: Stored) -> list[Walk]:
        """The same of a result."""
        pairs = zip(self.captured.graphs, self.alignments, strict=True)
        return [walk_of_result(g, node, a, stored, i) for i, (g, a) in enumerate(pairs)]

    def merge(self, results: Sequence[Sequence[Walk]]) -> None:
        """Groups of axes between time and columns, at least two: blocks of rows, and rows."""
        order = [a for a in self.alignments[0].order if a not in (self.time, -1)]
        order = [a for a in order if any(size[a] != 1 for size in self.sizes)]
        walks = [*(self.walks(source) for source in self.operands), *results]
        by_set = [[walk[i] for walk in walks] for i in range(len(self.sizes))]
        groups = merge_axes(order, self.sizes, by_set, fences=frozenset())
        self.groups = [()] * (2 - len(groups)) + groups

    def access(self, tensor: str, walks: Sequence[Walk], *, is_stepped: bool = True) -> Access:
        """An operand over steps, outer loops, blocks, rows and columns."""
        groups = [(self.time,)] * is_stepped + [*self.groups, (-1,)]
        strides = tuple(group_stride(g, walks, self.sizes) for g in groups)
        return Access(tensor=tensor, strides=strides, offset=tuple(w.offset for w in walks))


def find_row_loop(captured: Captured, nodes: Sequence[int], chip: ChipSpec) -> RowLoop | None:
    """The loop of these nodes as one of rows that go their own ways; None if it is not."""
    loop = RowLoop(captured, nodes)
    return loop if loop.fits(chip) else None


class ResidentRowsPlanner:
    """Plans one such loop."""

    def __init__(
        self,
        loop: RowLoop,
        *,
        buffers: Mapping[int, Stored],
        outputs: Sequence[int],
        chip: ChipSpec,
    ) -> None:
        """`buffers` names every value in HBM by its base node; `outputs` are the nodes to store."""
        self.loop = loop
        loop.merge([loop.written_walks(node, buffers[node]) for node in outputs])
        self.graph = loop.graph
        self.buffers = buffers
        self.outputs = outputs
        self.chip = chip
        self.lowering = Lowering(
            loop.graph,
            places={node: self._place(varying(loop.alignments, node)) for node in loop.nodes},
            numbers=loop.captured.numbers(),
            generation=chip.generation,
            num_levels=STEP + 1,
            is_packed=True,
        )
        self.lowering.reserve(stored.name for stored in buffers.values())
        self.lowering.reserve(("rows", "each", "num_cols", "height", "stack", "t", "t0", "count"))
        self.made: set[Tile] = set()

    @staticmethod
    def _place(axes: frozenset[int]) -> Place:
        return Place(Kind.FULL if -1 in axes else Kind.ROW, STEP)

    def plan(self) -> ResidentRowsPlan:
        """Plan the stage."""
        loop, lowering = self.loop, self.lowering
        before: dict[str, Tile] = {}
        inputs: list[RowOperand] = []
        for source in loop.operands:
            base = self.graph.base(source)
            if base.op is Op.STATE and base.name in before:
                lowering.bind(source, before[base.name])
                continue
            known = next((o for o in inputs if o.access == self._access(source)), None)
            if known is not None:
                lowering.bind(source, known.tile)
                continue
            operand = self._operand(source)
            if base.op is Op.STATE:
                before[base.name] = operand.tile
            else:
                inputs.append(operand)
        for node in loop.nodes:
            lowering.lower(self.graph[node])
        after = {name: self._finish(n.inputs[1]) for name, n in loop.histories.items()}
        results = [self._result(n, after) for n in self.outputs if self._is_read(n)]
        steps = fold_negations(lowering.levels[STEP])
        leaving = {result.tile for result in results}
        kept = {tile: after[name] for name, tile in before.items()}
        moved = find_psum_tiles([with_tiles(s, kept) for s in steps], fixed=leaving)
        moved = self._few(moved)
        moved += [tile for tile, made in kept.items() if made in moved]
        steps = in_psum(steps, moved)
        cols = tuple(size[-1] for size in loop.sizes)
        estimate = Estimate(self.chip, max(TILE_ELEMS // 4, *cols), len(cols), is_packed=True)
        names = lowering.taken_names
        return ResidentRowsPlan(
            title=f"all steps, {describe(loop.captured, loop.nodes)}",
            steps=tuple(size[loop.time] for size in loop.sizes),
            outer=tuple(group_size(g, loop.sizes) for g in loop.groups[:-2]),
            blocks=group_size(loop.groups[-2], loop.sizes),
            rows=group_size(loop.groups[-1], loop.sizes),
            cols=cols,
            inputs=tuple(inputs),
            results=tuple(results),
            states=tuple(
                RowState(before=tile, after=after[name], initial=self._initial(name))
                for name, tile in before.items()
            ),
            before=tuple(lowering.levels[0]),
            step=tuple(balance(steps, estimate, floor_ns=0.0, scratch=names)),
        )

    def _few(self, tiles: Sequence[Tile]) -> list[Tile]:
        """As many of them as PSUM has room for, twice."""
        if max(size[-1] for size in self.loop.sizes) > TILE_ELEMS // 2:
            return []
        room = self.chip.psum_partition_bytes // (2 * TILE_ELEMS * DType.FLOAT32.itemsize)
        return list(tiles[:room])

    def _operand(self, source: int) -> RowOperand:
        walks = self.loop.walks(source)
        moving = moving_axes(walks, self.loop.sizes)
        base = self.graph.base(source)
        stored = self.buffers[base.id]
        place = self._place(moving)
        suffix = (
            "before" if base.op is Op.STATE else "tile" if place.kind is Kind.FULL else "column"
        )
        tile = self.lowering.tile(f"{stored.name}_{suffix}", place, stored.dtype)
        self.lowering.bind(source, tile)
        return RowOperand(
            tile=tile, access=self._access(source), is_moving=self.loop.time in moving
        )

    def _access(self, source: int) -> Access:
        name = self.buffers[self.graph.base(source).id].name
        return self.loop.access(name, self.loop.walks(source))

    # -- results ----------------------------------------------------------------------------------
    def _finish(self, node: int) -> Tile:
        """The tile of a result, which no other result shares."""
        stored = self.buffers[node]
        tile = self.lowering.finish(node, f"{stored.name}_tile", stored.dtype)
        place = self.lowering.places[node]
        own = any(tile in step_writes(step) for step in self.lowering.levels[STEP])
        if not own or tile in self.made or tile.kind is not place.kind:
            copied = self.lowering.tile(f"{stored.name}_tile", place, stored.dtype)
            self.lowering.emit(STEP, Copy(dst=copied, src=tile))
            tile = copied
        self.made.add(tile)
        return tile

    def _is_read(self, node: int) -> bool:
        """Whether anything behind the loop reads what is stored."""
        history = next((h for h in self.loop.histories.values() if h.inputs[1] == node), None)
        if history is None:
            return True
        read = [i for n in self.graph.nodes if n.op is not Op.VIEW for i in n.inputs]
        return any(self.graph.base(i).id == history.id for i in (*read, *self.graph.outputs))

    def _result(self, node: int, after: Mapping[str, Tile]) -> RowOperand:
        names = [name for name, h in self.loop.histories.items() if h.inputs[1] == node]
        tile = after[names[0]] if names else self._finish(node)
        stored = self.buffers[node]
        walks = self.loop.written_walks(node, stored)
        return RowOperand(tile=tile, access=self.loop.access(stored.name, walks))

    def _initial(self, name: str) -> Access:
        state = next(n for n in self.graph.nodes if n.op is Op.STATE and n.name == name)
        source = next(s for s in self.loop.operands if self.graph.base(s).id == state.id)
        walks = self.loop.walks(source)
        return self.loop.access(self.buffers[state.id].name, walks, is_stepped=False)


def plan_row_loop(
    captured: Captured,
    nodes: Sequence[int],
    *,
    buffers: Mapping[int, Stored],
    outputs: Sequence[int],
    chip: ChipSpec,
) -> ResidentRowsPlan | None:
    """Plan a loop of rows that go their own ways; None if it is of another form."""
    loop = find_row_loop(captured, nodes, chip)
    if loop is None:
        return None
    return ResidentRowsPlanner(loop, buffers=buffers, outputs=outputs, chip=chip).plan()
