"""Plans one pass over rows: elementwise chains and reductions of the trailing axes.

Law: a tile holds up to 128 rows, one in each partition, with all their columns or a block of them;
a stage without row structure is folded flat onto all partitions. What does not vary along a loop
is loaded once, before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

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
from nki_agent.builtin.balance import Estimate
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.choices import Choices, Phases
from nki_agent.builtin.graph import Node, Op, UnsupportedError
from nki_agent.builtin.kept_vectors import keep_vectors
from nki_agent.builtin.lower import Lowering
from nki_agent.builtin.pacing import Pacer
from nki_agent.builtin.packed_rows import (
    ROWS_EACH_MIN,
    SHORT_ROW_BYTES,
    choose_packed,
    spread_apart,
)
from nki_agent.builtin.pending import Place, fold_negations
from nki_agent.builtin.plan import RowsPlan, Stored, Total
from nki_agent.builtin.row_bytes import BUFFERS, bytes_of
from nki_agent.builtin.row_parts import RowPart, find_row_parts, is_scattered
from nki_agent.builtin.row_space import Space, longest_as_rows, space_of_total, with_period
from nki_agent.builtin.selections import choose_in_place
from nki_agent.builtin.shortening import shorten
from nki_agent.builtin.stages import Group
from nki_agent.builtin.strips import (
    Passes,
    StripLowering,
    lower_strips,
    pace_strips,
    read_again,
    strip_bytes,
)
from nki_agent.builtin.tile_steps import (
    Access,
    AffineSelect,
    Copy,
    Cut,
    Iota,
    Kind,
    Load,
    Step,
    Store,
    Tile,
    loaded_dtype,
    step_reads,
    step_writes,
)
from nki_agent.builtin.titles import describe
from nki_agent.builtin.totals import added_axes, total_walks
from nki_agent.chip.spec import ChipSpec

FLAT_ROWS_MAX = 32
"""With fewer rows than this and long columns, columns are spread over the partitions instead."""
COL_BLOCK_MIN = 128
TILES_FOR_PHASES = 3  # with fewer tiles there is nothing to run ahead with


class RowsPlanner:
    """Plans one group of nodes."""

    def __init__(
        self,
        captured: Captured,
        group: Group,
        *,
        buffers: Mapping[int, Stored],
        outputs: Sequence[int],
        chip: ChipSpec,
    ) -> None:
        """`buffers` names every value in HBM by its base node; `outputs` are the nodes to store."""
        self.captured = captured
        self.fold = group.fold
        self.group = replace(group, nodes=tuple(n for n in group.nodes if n != group.fold))
        self.graph = captured.graph
        self.buffers = buffers
        self.outputs = [n for n in outputs if n != group.fold]
        self.chip = chip
        self.choices = Choices()
        self.alignments = [self._align(g_index) for g_index in range(len(captured.graphs))]
        share_axes(self.alignments)
        self.operands = self._find_operands()
        self.added = added_axes(captured, self.alignments, self.fold)
        self.by_memory: Space | None = None
        self.taken: tuple[str, ...] = ()
        """Names of tiles that others of the stage have."""
        self.tells_rows = False
        """Whether phases are told which rows they are given."""

    def _align(self, index: int) -> Alignment:
        graph = self.captured.graphs[index]
        found = align(graph, self.group.nodes)
        if found is None:
            node = self.graph[self.group.nodes[0]]
            raise UnsupportedError(node.origin, "its operands do not share rows")
        return found

    def _find_operands(self) -> dict[int, Axes]:
        found: dict[int, Axes] = {}
        for source, axes in outside_operands(self.graph, self.group.nodes, self.alignments[0]):
            size = len(self.graph[source].shape)
            mine = axes[len(axes) - size :]
            known = found.setdefault(source, mine)
            moving = [
                (a, b)
                for a, b, n in zip(known, mine, self.graph[source].shape, strict=True)
                if n != 1
            ]
            if any(a != b for a, b in moving):
                raise UnsupportedError(
                    self.graph[source].origin, "one tensor is used along two different axes"
                )
        return found

    def walks(self, source: int, axes: Axes) -> list[Walk]:
        """How an operand is walked, at each shape set."""
        return [
            walk_of(graph, source, axes, found)
            for graph, found in zip(self.captured.graphs, self.alignments, strict=True)
        ]

    def output_walks(self, node: int) -> list[Walk]:
        """How a result is walked."""
        stored = self.buffers[node]
        pairs = zip(self.captured.graphs, self.alignments, strict=True)
        return [walk_of_result(g, node, a, stored, i) for i, (g, a) in enumerate(pairs)]

    def _space(self) -> Space:
        first = self.alignments[0]
        sizes = tuple(a.sizes for a in self.alignments)
        walks = [self.walks(s, axes) for s, axes in self.operands.items()]
        walks += [self.output_walks(node) for node in self.outputs]
        if self.fold is not None:
            walks.append(total_walks(self.captured, self.alignments, self.fold, self.buffers))
        by_set = [[walk[i] for walk in walks] for i in range(len(sizes))]
        reduced = self.reduced
        fences = frozenset({min(reduced)}) if reduced else frozenset()
        fences |= self._own_fences()
        fences |= {f for axis in self.added for f in (axis, axis + 1)}
        time = first.order[0] if self.group.loop else 0
        if not reduced:
            # Rows of which every second column is read stay rows, to be cut out of whole ones.
            last = max((a for a in first.order if any(s[a] != 1 for s in sizes)), default=-1)
            steps = {walk.strides.get(last, 0) for walk_set in by_set for walk in walk_set}
            fences |= {last} if steps - {0, 1} else set()
        order = [a for a in first.order if a in reduced or any(size[a] != 1 for size in sizes)]
        outside = [(time,)] if time else []
        order = [a for a in order if a != time]
        groups = merge_axes(order, sizes, by_set, fences=fences) or [()]
        if reduced and not reduced <= set(groups[-1]):
            raise UnsupportedError(
                self._reduction().origin,
                "a reduction over axes that no tensor crosses in one stride",
                hint="make the reduced axes the last ones and contiguous",
            )
        if len(groups) == 1 and not reduced:
            return Space((*outside, *groups), sizes, is_flat=True)
        if len(groups) == 1:
            return Space((*outside, (), groups[0]), sizes, is_flat=False)
        if self.fold is not None:
            return space_of_total(groups, sizes, self.added)
        self.by_memory = Space((*outside, *groups), sizes, is_flat=False)
        groups = longest_as_rows(groups, sizes, self.chip.partitions)
        rows, cols = (max(group_size(g, sizes)) for g in groups[-2:])
        is_flat = not reduced and rows < FLAT_ROWS_MAX and cols >= FLAT_ROWS_MAX * COL_BLOCK_MIN
        return Space((*outside, *groups), sizes, is_flat=is_flat)

    def _own_fences(self) -> frozenset[int]:
        """Axes that no group of a kind of its own reaches across."""
        return frozenset()

    @property
    def reduced(self) -> frozenset[int]:
        """Axes that are reduced at any shape set: where they have one element they are not seen."""
        return frozenset(a for found in self.alignments for axes in found.reduced for a in axes)

    def _reduction(self) -> Node:
        return next(
            self.graph[n] for n in self.group.nodes if self.graph[n].op in (Op.REDUCE, Op.SCAN)
        )

    def plan(self, choices: Choices) -> RowsPlan:
        """Plan the stage.

        Raises:
            UnsupportedError: rows that are reduced do not fit SBUF.
        """
        self.choices = choices
        space = self._space()
        cols = group_size(space.groups[-1], space.sizes)
        is_reduced = bool(self.reduced)
        if self.fold is None:
            packed = self._plan_packed(space) or self._plan_middle(space)
            if packed is not None:
                return packed
        space = self._with_period(space)
        room = int(self.chip.sbuf_usable_partition_bytes * choices.sbuf_share)
        plan = self._plan_blocks(space, room)
        usable = self.chip.sbuf_usable_partition_bytes
        needed = bytes_of(plan, buffers=1)
        if needed > usable and is_reduced and not space.is_flat:
            striped = self._plan_strips(space, room)
            if striped is not None:
                return striped
        if needed > usable:
            node = self._reduction() if is_reduced else self.graph[self.group.nodes[0]]
            raise UnsupportedError(
                node.origin,
                f"rows of {max(cols)} columns need {needed} bytes of each partition,"
                f" and SBUF has {usable}",
                hint=f"reduced rows must fit: up to {max(cols) * usable // needed} columns",
            )
        return plan

    def _with_period(self, space: Space) -> Space:
        """Several short outer rows in one tile, where nothing forbids it."""
        if self.group.loop or self.fold is not None or space.is_flat:
            return space
        if any(self.graph.base(s).op is Op.IOTA for s in self.operands):
            return space  # a number by position is no column
        walks = [self.walks(s, axes) for s, axes in self.operands.items()]
        walks += [self.output_walks(node) for node in self.outputs]
        made = (varying(self.alignments, node) for node in self.group.nodes)
        return with_period(self.by_memory or space, made, walks, self.chip.partitions) or space

    def _plan_blocks(self, space: Space, room: int) -> RowsPlan:
        """Blocks of columns that fit, or whole rows where columns depend on each other."""
        is_reduced = bool(self.reduced)
        cols = group_size(space.groups[-1], space.sizes)
        block: int | None = None
        if space.is_flat or (not is_reduced and max(cols) > self.choices.col_block):
            block = self.choices.col_block
        if block is not None and self._has_steps(space):
            plan = self.lower_to(space, None)
            if bytes_of(plan, buffers=BUFFERS) <= room:
                return plan
        plan = self.lower_to(space, block)
        while bytes_of(plan, buffers=BUFFERS) > room:
            if is_reduced and not space.is_flat:
                break
            smaller = (block or max(cols)) // 2
            if smaller < COL_BLOCK_MIN:
                break
            block = smaller
            plan = self.lower_to(space, block)
        return plan

    def _plan_strips(self, space: Space, room: int) -> RowsPlan | None:
        """Rows in strips; None if whole vectors do not fit, or a scan needs whole rows."""
        ops = {self.graph[n].op for n in self.group.nodes}
        if self.group.loop or ops & {Op.SCAN, Op.LANES}:
            return None
        cols = group_size(space.groups[-1], space.sizes)
        row_level = len(space.outer) + 1
        block, plain = self.choices.col_block, None
        while block >= COL_BLOCK_MIN:
            plan = self._lower_strips(space, row_level, block)
            kept = read_again(plan.levels, row_level)
            while True:
                found = strip_bytes(
                    plan.levels, row_level=row_level, cols=max(cols), block=block, kept=kept
                )
                if found <= room or not kept:
                    break
                kept = kept[:-1]
            if found <= room and kept:
                return replace(plan, kept=kept)
            plain = plain or (plan if found <= room else None)
            block //= 2
        return plain

    def _lower_strips(self, space: Space, row_level: int, block: int) -> RowsPlan:
        places = {
            node: space.place(varying(self.alignments, node), has_col_loop=False)
            for node in self.group.nodes
        }
        passes = Passes(self.graph, places, self.outputs)
        lowering = StripLowering(
            self.graph,
            places=places,
            numbers=self.captured.numbers(),
            generation=self.chip.generation,
            num_levels=row_level + 3 + 2 * passes.count,
        )
        lowering.reserve(stored.name for stored in self.buffers.values())
        self._begin({})
        walks = {s: self.walks(s, axes) for s, axes in self.operands.items()}
        operands = {
            s: space.place(moving_axes(w, space.sizes), has_col_loop=False)
            for s, w in walks.items()
        }
        lower_strips(
            lowering,
            passes,
            operands,
            row_level=row_level,
            load=lambda source, place: self._load(lowering, space, source, walks[source], place),
            store=lambda node: self._store(lowering, space, node),
        )
        estimate = Estimate(self.chip, block, len(space.sizes), shares=self.choices.sharing)
        levels = pace_strips(lowering, row_level, estimate, may_park=self.choices.parking)
        return RowsPlan(
            title=describe(self.captured, self.group.nodes),
            outer=tuple(group_size(g, space.sizes) for g in space.outer),
            rows=group_size(space.groups[-2], space.sizes),
            cols=group_size(space.groups[-1], space.sizes),
            col_block=block,
            is_flat=False,
            rows_each=None,
            levels=tuple(tuple(steps) for steps in levels),
            passes=passes.count,
            period=group_size(space.period, space.sizes) if space.period else None,
        )

    def _plan_packed(self, space: Space) -> RowsPlan | None:
        """Several short rows in each partition, where transfers and tiles are too short else."""
        if space.is_flat or not self.choices.packing:
            return None
        cols, rows = (max(group_size(g, space.sizes)) for g in (space.groups[-1], space.groups[-2]))
        itemsize = min(self.buffers[n].dtype.itemsize for n in self._wide_values())
        each = min(self.choices.col_block // cols, rows // self.chip.partitions)
        if cols * itemsize >= SHORT_ROW_BYTES or each < ROWS_EACH_MIN:
            return None
        lower = partial(self.lower_to, space, None, each)
        return choose_packed(lower, space, each, self.chip)

    def _plan_middle(self, space: Space) -> RowsPlan | None:
        """Short rows along an axis that another one fills the partitions with."""
        if self.by_memory is None or self.group.loop or not self.by_memory.outer or space.is_flat:
            return None
        *outer, middle, cols = self.by_memory.groups
        rows = max(outer, key=lambda group: max(group_size(group, space.sizes)))
        outside = [group for group in outer if group is not rows]
        width, count = (max(group_size(g, space.sizes)) for g in (cols, middle))
        itemsize = min(self.buffers[n].dtype.itemsize for n in self._wide_values())
        each = min(self.choices.col_block // width, count) if width else 0
        filled = max(group_size(rows, space.sizes))
        by_position = any(self.graph.base(s).op is Op.IOTA for s in self.operands)
        short = width * itemsize < SHORT_ROW_BYTES and each >= ROWS_EACH_MIN
        if not short or by_position or filled < FLAT_ROWS_MAX or self._find_row_parts(space):
            return None
        turned = Space((*outside, middle, rows, cols), space.sizes, is_flat=False, has_middle=True)
        try:
            plan = self.lower_to(turned, None, each)
        except UnsupportedError:
            return None
        room = self.chip.sbuf_usable_partition_bytes
        return plan if bytes_of(plan, buffers=BUFFERS) <= room else None

    def _wide_values(self) -> list[int]:
        """Base nodes of the stage's larger tensors in HBM."""
        found = [
            *(b for s in self.operands if (b := self.graph.base(s).id) in self.buffers),
            *self.outputs,
        ]
        largest = max(self.graph[n].num_elems for n in found)
        return [n for n in found if self.graph[n].num_elems == largest]

    def lower_to(
        self, space: Space, block: int | None, each: int | None = None, *, is_apart: bool = False
    ) -> RowsPlan:
        """The plan on these axes, with so many columns in a tile and rows in a partition.

        With `is_apart`, these rows go one by one where a step takes a value of each.
        """
        has_col_loop = block is not None and not space.is_flat
        num_levels = len(space.outer) + 2 + has_col_loop - space.has_middle
        places = {
            node: space.place(varying(self.alignments, node), has_col_loop=has_col_loop)
            for node in self.group.nodes
        }
        lowering = Lowering(
            self.graph,
            places=places,
            numbers=self.captured.numbers(),
            generation=self.chip.generation,
            num_levels=num_levels,
            is_packed=each is not None and not is_apart,
        )
        lowering.reserve([*(stored.name for stored in self.buffers.values()), *self.taken])
        whole = block is None and not space.is_flat
        self._begin(self._find_row_parts(space) if whole else {})
        for source, axes in self.operands.items():
            walks = self.walks(source, axes)
            place = space.place_read(walks, has_col_loop=has_col_loop)
            self._load(lowering, space, source, walks, place)
        total = self._lower_all(lowering, space)
        levels = lowering.levels
        if total is None:
            levels = choose_in_place([fold_negations(steps) for steps in levels])
            levels = shorten(levels, self.choices)
        names = lowering.taken_names
        cuts: tuple[int, ...] = ()
        if is_apart and each is not None:
            levels[-1] = spread_apart(levels[-1], self.chip, space, each, names, self.choices)
        else:
            levels[-1], cuts = self._spread(space, levels[-1], block, names, each)
            levels = keep_vectors(levels, names)
        return RowsPlan(
            title=describe(self.captured, self.group.nodes),
            outer=tuple(group_size(g, space.sizes) for g in space.outer),
            rows=(1,) * len(space.sizes)
            if space.is_flat
            else group_size(space.groups[-2], space.sizes),
            cols=group_size(space.groups[-1], space.sizes),
            col_block=block,
            is_flat=space.is_flat,
            rows_each=each,
            is_apart=is_apart,
            levels=tuple(tuple(steps) for steps in levels),
            has_middle=space.has_middle,
            cuts=cuts,
            period=group_size(space.period, space.sizes) if space.period else None,
            after=tuple(self.after),
            is_step=bool(self.group.loop),
            total=total,
        )

    def _lower_all(self, lowering: Lowering, space: Space) -> Total | None:
        """Every node, then what is stored."""
        for node_id in self.group.nodes:
            lowering.lower(self.graph[node_id])
        total = self._total(lowering, space)
        lowering.expect(self.outputs)
        loaded = set(self._kept_rows)
        for node_id in self.outputs:
            self._store(lowering, space, node_id)
        for access, tile in self._kept_rows.items():
            if access not in loaded:
                lowering.emit(tile.level, Store(access=access, src=tile))
        return total

    def _total(self, lowering: Lowering, space: Space) -> Total | None:
        """What is added up over the innermost loop: see `total_rows`."""
        del lowering, space
        return None

    def _spread(
        self,
        space: Space,
        steps: list[Step],
        block: int | None,
        names: Mapping[str, int],
        each: int | None,
    ) -> tuple[list[Step], tuple[int, ...]]:
        """Give the engines even queues, and cut phases where there are many tiles."""
        cols = max(group_size(space.groups[-1], space.sizes))
        width = (cols if block is None else min(block, cols)) * (each or 1)
        estimate = Estimate(
            self.chip, width, len(space.sizes), each is not None, self.choices.sharing
        )
        moved = sum(
            width * self.chip.partitions * tile.dtype.itemsize
            for step in steps
            if isinstance(step, Load | Store)
            for tile in (*step_reads(step), *step_writes(step))
            if tile.is_wide
        )
        # Functions of phases do not know which rows and columns they are given.
        unknown = (Cut,) if self.tells_rows else (Iota, AffineSelect, Cut)
        by_position = any(isinstance(step, unknown) for step in steps)
        num_tiles = space.num_tiles(width, each or 1, self.chip.partitions)
        if self.fold is not None:
            num_tiles = max(group_size(space.outer[-1], space.sizes))
        has_phases = not (
            by_position
            or self.choices.phases is Phases.NONE
            or self.group.loop
            or num_tiles < TILES_FOR_PHASES
            or space.has_middle
        )
        paced = Pacer(
            estimate=estimate,
            floor_ns=moved / self.chip.dma_bytes_per_ns,
            names=names,
            num_tiles=num_tiles,
            has_phases=has_phases,
            may_park=self.choices.parking,
            banks_held=-(-4 * cols // self.chip.psum_bank_bytes) if self.fold is not None else 0,
            phases=self.choices.phases,
            vector_elems=0 if self.fold or self.group.loop else width // (each or 1),
        ).pace(steps)
        return list(paced.steps), paced.cuts

    def _access(self, space: Space, tensor: str, walks: Sequence[Walk]) -> Access:
        strides = tuple(group_stride(group, walks, space.sizes) for group in space.groups)
        return Access(tensor=tensor, strides=strides, offset=tuple(w.offset for w in walks))

    def _begin(self, row_parts: Mapping[Access, RowPart]) -> None:
        """Nothing is loaded yet; these accesses are cut out of whole rows."""
        self._row_parts = row_parts
        self._kept_rows: dict[Access, Tile] = {}
        self.after: list[Store] = []

    def _load(
        self,
        lowering: Lowering,
        space: Space,
        source: int,
        walks: Sequence[Walk],
        place: Place,
    ) -> None:
        base = self.graph.base(source)
        if base.op is Op.IOTA:
            lowering.offer(source, place, self._access(space, "", walks))
            return
        stored = self.buffers[base.id]
        name = stored.name
        is_scalar = place.kind is Kind.ONE or (place.kind is Kind.ROW and not lowering.is_packed)
        dtype = loaded_dtype(stored.dtype, is_scalar=is_scalar)
        suffix = {Kind.FULL: "tile", Kind.ROW: "column", Kind.VECTOR: "row", Kind.ONE: "value"}[
            place.kind
        ]
        tile = lowering.tile(f"{name}_{suffix}", place, dtype)
        access = self._access(space, name, walks)
        part = self._row_parts.get(access)
        if part is None:
            lowering.emit(place.level, Load(dst=tile, access=access))
        else:
            if part.row not in self._kept_rows:
                whole = replace(tile, name=lowering.name(f"{name}_whole"), cols=part.width)
                self._kept_rows[part.row] = whole
                lowering.emit(place.level, Load(dst=whole, access=part.row))
            rows = self._kept_rows[part.row]
            cut = Cut(dst=tile, src=rows, start=part.start, step=part.step)
            lowering.emit(place.level, cut)
        lowering.bind(source, tile)

    def _store(self, lowering: Lowering, space: Space, node_id: int) -> None:
        name, dtype = self.buffers[node_id].name, self.buffers[node_id].dtype
        tile = lowering.finish(node_id, f"{name}_tile", dtype)
        access = self._access(space, name, self.output_walks(node_id))
        part = self._row_parts.get(access)
        if is_scattered(lowering, tile, part):
            own = lowering.tile(f"{name}_tile", Place(tile.kind, tile.level), dtype)
            lowering.emit(tile.level, Copy(dst=own, src=tile))
            tile = own
        if part is None:
            store = Store(access=access, src=tile)
            if self.graph[node_id].op is Op.LANES:
                self.after.append(store)
            else:
                lowering.emit(tile.level, store)
            return
        if part.row not in self._kept_rows:
            whole = replace(tile, name=lowering.name(f"{name}_whole"), cols=part.width)
            self._kept_rows[part.row] = whole
        rows = self._kept_rows[part.row]
        cut = Cut(dst=tile, src=rows, start=part.start, step=part.step)
        lowering.levels[tile.level].insert(0, cut)

    def _has_steps(self, space: Space) -> bool:
        """Whether a tensor is read or written column by column, which whole rows in SBUF avoid."""
        if space.is_flat:
            return False
        return any(part.step != 1 for part in self._find_row_parts(space).values())

    def _find_row_parts(self, space: Space) -> dict[Access, RowPart]:
        """Parts of rows that are cut out of whole ones."""
        cols = group_size(space.groups[-1], space.sizes)
        both = frozenset(space.groups[-1]), frozenset(space.groups[-2])
        loads, stores = [], []
        for source, axes in self.operands.items():
            walks = self.walks(source, axes)
            base = self.graph.base(source)
            if base.op is not Op.IOTA and all(
                moving_axes(walks, space.sizes) & axis for axis in both
            ):
                loads.append(self._access(space, self.buffers[base.id].name, walks))
        for node_id in self.outputs:
            if all(varying(self.alignments, node_id) & axis for axis in both):
                walks = self.output_walks(node_id)
                stores.append(self._access(space, self.buffers[node_id].name, walks))
        itemsize = min(self.buffers[n].dtype.itemsize for n in self._wide_values())
        found = find_row_parts(loads, cols, itemsize=itemsize, whole=False)
        return found | find_row_parts(stores, cols, itemsize=itemsize, whole=True)
