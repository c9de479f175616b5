"""Plans products: matmul with what follows it, attention, and transposes.

Law: K lies on the partitions of both operands. x is turned on the Tensor Engine and kept for a
group of rows; w stays in SBUF whole where it fits, else one block of columns at a time serves the
group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from nki_agent.builtin.choices import Choices
from nki_agent.builtin.graph import Graph, Node, Op, UnsupportedError, contiguous_strides
from nki_agent.builtin.lower import Lowering
from nki_agent.builtin.pending import Place
from nki_agent.builtin.plan import MatmulPlan, Stored, TransposePlan
from nki_agent.builtin.product_epilogues import Levels, pace_epilogue
from nki_agent.builtin.shortening import shorten
from nki_agent.builtin.stages import Group
from nki_agent.builtin.stored_operands import WIDENED, is_mixed
from nki_agent.builtin.tile_steps import Access, Kind, Load, Size, Step, Store, Tile, loaded_dtype
from nki_agent.builtin.titles import describe
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

DEEP_TILES = 4
"""Tiles of rows that add up such parts: half of the PSUM banks, so that the next may begin."""
SHORT_ROW_BYTES = 1024
"""Rows up to this share partitions while they are loaded."""
SHORT_ROWS_BYTES = 4096
"""What they make together at most: past it DMA gains nothing."""
PRODUCT_NS = 300.0
"""What each tile of a result costs beside its elements: the start of what takes it out of PSUM."""
AxisGroup = tuple[int, ...]
SPLIT_ROWS_MIN = 256
"""Rows of x from which on three products of halves of it cost less than to halve all of w."""
TRANSPOSE_SHORT = 128
"""Rows of a stored transpose up to this length are stored several at a time."""
MATRIX_RANK = 2
GEN3 = 3
FP8 = (DType.FLOAT8_E4M3, DType.FLOAT8_E5M2, DType.FLOAT8_E4M3FN)


@dataclass(frozen=True, slots=True)
class Matrices:
    """Axes of a product after merging: batch groups, then rows and columns of the result."""

    batch: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]
    sizes: tuple[dict[int, int], ...]

    def access(self, tensor: str, walks: Sequence[Walk], *minor: Size, is_left: bool) -> Access:
        """An operand over the batch loops and its two matrix axes."""
        strides = [group_stride(g, walks, self.sizes) for g in self.batch]
        if is_left:
            strides.append(group_stride(self.rows, walks, self.sizes))
        return Access(
            tensor=tensor, strides=(*strides, *minor), offset=tuple(w.offset for w in walks)
        )


class MatmulPlanner:
    """Plans one product and its epilogue."""

    def __init__(
        self,
        captured: Captured,
        group: Group,
        *,
        buffers: Mapping[int, Stored],
        outputs: Sequence[int],
        chip: ChipSpec,
    ) -> None:
        self.captured = captured
        self.graph = captured.graph
        self.group = group
        self.buffers = buffers
        self.outputs = outputs
        self.chip = chip
        self.node = next(
            captured.graph[n] for n in group.nodes if captured.graph[n].op is Op.MATMUL
        )
        found = [align(graph, group.nodes, seed=self.node.id) for graph in captured.graphs]
        self.alignments: list[Alignment] = [a for a in found if a is not None]
        share_axes(self.alignments)
        assert len(self.alignments) == len(found)
        self.operands = dict(outside_operands(self.graph, group.nodes, self.alignments[0]))

    def plan(self, choices: Choices) -> MatmulPlan:
        """Plan the stage.

        Raises:
            UnsupportedError: dtypes that no matmul takes, or a depth that does not fit SBUF.
        """
        dtype = product_dtype(self.graph, self.node)
        x_id, w_id = self.node.inputs
        x_walks, w_walks = self._side(x_id), self._side(w_id)
        space = self._merge(x_walks, w_walks)
        k = tuple(g[x_id].shape[-1] for g in self.captured.graphs)
        x = space.access(
            self._name(x_id), x_walks, minor_stride(self.captured, x_id, -1), is_left=True
        )
        w = space.access(
            self._name(w_id),
            w_walks,
            minor_stride(self.captured, w_id, -2),
            minor_stride(self.captured, w_id, -1),
            is_left=False,
        )
        m, n = group_size(space.rows, space.sizes), tuple(s[-1] for s in space.sizes)
        levels, product = self._epilogue(space)
        levels = self._paced(levels, choices, cols=max(n), depth=max(k))
        each = short_rows(choices, dtype, k, self.chip)
        group = self.chip.partitions * each
        is_ready = set(x.strides[-2]) == {1} != set(x.strides[-1])
        waiting = 0 if is_ready else 2 * max(k) * dtype.itemsize
        most = (max(m), max(k), max(n))
        blocks = self._blocks(dtype, choices, most, group=group, waiting=waiting)
        return MatmulPlan(
            title=describe(self.captured, self.group.nodes),
            batch=tuple(group_size(g, space.sizes) for g in space.batch),
            x=x,
            w=w,
            dtype=dtype,
            m=m,
            k=k,
            n=n,
            row_group=blocks[0],
            col_group=blocks[1],
            is_bank_wide=blocks[1] == self.chip.psum_bank_bytes // DType.FLOAT32.itemsize,
            keep_w=blocks[2],
            depth_group=blocks[3],
            x_each=each,
            w_each=each,
            w_banks=choices.w_banks,
            product=product,
            levels=levels,
            has_double_rows=dtype in FP8 and self.chip.generation >= GEN3,
            is_step=bool(self.group.loop),
            is_mixed=is_mixed(self.graph, self.node),
            is_w_first=self._is_made(x_id) and not self._is_made(w_id),
            has_short_rows=max(n) * max(self.buffers[node].dtype.itemsize for node in self.outputs)
            < self.chip.dma_efficient_descriptor_bytes,
            is_split=choices.split_products
            and dtype is DType.FLOAT32
            and max(m) >= SPLIT_ROWS_MIN
            and not (self.group.loop or blocks[3] or self._makes_scores()),
        )

    def _paced(self, levels: Levels, choices: Choices, *, cols: int, depth: int) -> Levels:
        """What follows the product in its fastest form."""
        levels = tuple(tuple(steps) for steps in shorten(levels, choices))
        if self.group.loop:
            return levels
        bank = self.chip.psum_bank_bytes // DType.FLOAT32.itemsize
        estimate = Estimate(
            self.chip, min(cols, bank), len(self.captured.graphs), shares=choices.sharing
        )
        taken = [stored.name for stored in self.buffers.values()]
        dtype = product_dtype(self.graph, self.node)
        return pace_epilogue(levels, estimate, choices, taken=taken, depth=depth, dtype=dtype)

    def _makes_scores(self) -> bool:
        """Whether exponentials of the product count, or its order does.

        A score's error is a share of its size, and its exponential errs by as much as that: halves
        of large scores are wrong on a rare draw, though right on most. A logarithm takes it back.
        Nor may two scores that are nearly equal change places where one of them is chosen.
        """
        users = self.graph.users()
        waiting = [(i, False) for i in self.group.nodes if self.graph[i].op is Op.MATMUL]
        seen = set(waiting)
        while waiting:
            node_id, is_exponential = waiting.pop()
            for reader in users[node_id]:
                if reader < 0:
                    if is_exponential:
                        return True
                    continue
                if (is_exponential and self.graph[reader].op is Op.MATMUL) or (
                    self.graph[reader].op is Op.PICK
                ):
                    return True
                found = (reader, self._is_exponential(reader, before=is_exponential))
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
        return False

    def _is_exponential(self, node_id: int, *, before: bool) -> bool:
        node = self.graph[node_id]
        return node.function in {"exp", "softmax"} or (before and node.function != "log")

    def _is_made(self, node_id: int) -> bool:
        """Whether another stage makes a value."""
        return self.graph.base(node_id).op is not Op.INPUT

    def _name(self, node_id: int) -> str:
        return self.buffers[self.graph.base(node_id).id].name

    def _side(self, node_id: int) -> list[Walk]:
        """Strides of an operand over the leading axes, and over M for x or N for w."""
        is_left = node_id == self.node.inputs[0]
        walks = []
        for graph, alignment in zip(self.captured.graphs, self.alignments, strict=True):
            node = graph[node_id]
            rank = len(node.shape)
            kept = -MATRIX_RANK if is_left else -1
            axes: Axes = tuple(
                dim - rank if dim - rank in (*range(-rank, -MATRIX_RANK), kept) else None
                for dim in range(rank)
            )
            walks.append(walk_of(graph, node_id, axes, alignment))
        return walks

    def _merge(self, x_walks: list[Walk], w_walks: list[Walk]) -> Matrices:
        sizes = tuple(a.sizes for a in self.alignments)
        walks = [x_walks, w_walks, *(self._walks(s, axes) for s, axes in self.operands.items())]
        walks += [self._output_walks(node) for node in self.outputs]
        by_set = [[walk[i] for walk in walks] for i in range(len(sizes))]
        order = self.alignments[0].order
        fences = frozenset({-1, 1 - len(self.node.shape)} if self.group.loop else {-1})
        groups = merge_axes(order, sizes, by_set, fences=fences)
        if moving_axes(w_walks, sizes) & set(groups[-2]):
            # Rows share one w: an axis along which w moves is a loop, even if it is all rows.
            groups = merge_axes(order, sizes, by_set, fences=fences | {-MATRIX_RANK})
        batch, rows = groups[:-2], groups[-2]
        alone = not self.group.loop and set(group_size(rows, sizes)) == {1}
        shared = [g for g in batch if not any(group_stride(g, w_walks, sizes))] if alone else []
        if shared:
            # One row for each of some batches that share a w: together they are its rows.
            rows = max(shared, key=lambda group: max(group_size(group, sizes)))
            batch.remove(rows)
        return Matrices(tuple(batch), rows, sizes)

    def _walks(self, source: int, axes: Axes) -> list[Walk]:
        pairs = zip(self.captured.graphs, self.alignments, strict=True)
        return [walk_of(graph, source, axes, found) for graph, found in pairs]

    def _output_walks(self, node: int) -> list[Walk]:
        stored = self.buffers[node]
        pairs = zip(self.captured.graphs, self.alignments, strict=True)
        return [walk_of_result(g, node, a, stored, i) for i, (g, a) in enumerate(pairs)]

    # -- sizes of blocks --------------------------------------------------------------------------
    def _blocks(
        self,
        dtype: DType,
        choices: Choices,
        most: tuple[int, int, int],
        *,
        group: int,
        waiting: int,
    ) -> tuple[int, int, bool, int | None]:
        """Rows of a group, columns of a product, whether w is kept, and the depth of a part.

        `waiting` are the bytes of rows of x on their way to be turned, those of two tiles.
        """
        m, k, n = most
        lanes = self.chip.partitions
        room = int(self.chip.sbuf_usable_partition_bytes * choices.sbuf_share)
        k_bytes = -(-k // lanes) * dtype.itemsize
        bank = self.chip.psum_bank_bytes // DType.FLOAT32.itemsize
        # Tiles of the epilogue too are there twice, for overlap.
        working = waiting + 2 * self._epilogue_bytes(n, bank)
        whole = k_bytes * n
        if whole <= room * choices.w_share and whole + working + 2 * k_bytes * group <= room:
            return min(group, -(-m // lanes) * lanes), bank, True, None
        wanted = min(choices.row_group or m, m)
        found: list[tuple[float, int, int]] = []
        for cols in (bank, bank // 2, bank // 4):
            left = room - working - 2 * k_bytes * cols * choices.w_banks
            group = min(left // (k_bytes * lanes), -(-wanted // lanes)) * lanes
            if group >= lanes:
                # Every group of rows loads all of w; narrower products are more instructions.
                loads, tiles = -(-m // group), -(-m // lanes) * -(-n // cols)
                load_ns = whole * lanes / self.chip.dma_bytes_per_ns
                found.append((loads * load_ns + tiles * PRODUCT_NS, group, cols))
        if found:
            _, group, cols = min(found, key=lambda choice: choice[0])
            return group, cols, False, None
        # Too deep for SBUF: parts of the depth add up in one PSUM bank for each tile of rows.
        return min(DEEP_TILES * lanes, -(-m // lanes) * lanes), bank, False, choices.depth_group

    def _epilogue_bytes(self, n: int, cols: int) -> int:
        wide = [self.graph[i] for i in self.group.nodes]
        rows = [s for s, axes in self.operands.items() if len(self.graph[s].shape) <= 1]
        return cols * DType.FLOAT32.itemsize * len(wide) + n * DType.FLOAT32.itemsize * len(rows)

    # -- epilogue ---------------------------------------------------------------------------------
    def start(self, space: Matrices) -> tuple[Lowering, Tile]:
        """The product's tile and the operands of what follows it."""
        last = len(space.batch) + 1
        places = {
            node: self._place(space, varying(self.alignments, node)) for node in self.group.nodes
        }
        lowering = Lowering(
            self.graph,
            places=places,
            numbers=self.captured.numbers(),
            generation=self.chip.generation,
            num_levels=last + 1,
        )
        lowering.reserve(stored.name for stored in self.buffers.values())
        product = Tile(
            name=lowering.name("product"),
            kind=Kind.FULL,
            dtype=DType.FLOAT32,
            level=last,
            in_psum=True,
        )
        lowering.bind(self.node.id, product)
        for source, axes in self.operands.items():
            walks = self._walks(source, axes)
            place = self._place(space, moving_axes(walks, space.sizes))
            if self.graph[source].op is Op.IOTA:
                lowering.offer(source, place, self._access(space, "", walks))
                continue
            stored = self.buffers[self.graph.base(source).id]
            dtype = loaded_dtype(stored.dtype, is_scalar=place.kind in (Kind.ROW, Kind.ONE))
            name = stored.name
            tile = lowering.tile(f"{name}_{place.kind.value}", place, dtype)
            lowering.emit(place.level, Load(dst=tile, access=self._access(space, name, walks)))
            lowering.bind(source, tile)
        return lowering, product

    def _epilogue(self, space: Matrices) -> tuple[tuple[tuple[Step, ...], ...], Tile]:
        lowering, product = self.start(space)
        for node_id in self.group.nodes:
            if node_id != self.node.id:
                lowering.lower(self.graph[node_id])
        lowering.expect(self.outputs)
        for node_id in self.outputs:
            name, dtype = self.buffers[node_id].name, self.buffers[node_id].dtype
            tile = lowering.finish(node_id, f"{name}_tile", dtype)
            access = self._access(space, name, self._output_walks(node_id))
            lowering.emit(tile.level, Store(access=access, src=tile))
        return tuple(tuple(steps) for steps in lowering.levels), product

    def _access(self, space: Matrices, tensor: str, walks: Sequence[Walk]) -> Access:
        col = group_stride((-1,), walks, space.sizes)
        return space.access(tensor, walks, col, is_left=True)

    def _place(self, space: Matrices, axes: frozenset[int]) -> Place:
        row, col = bool(axes & set(space.rows)), -1 in axes
        batch = [bool(axes & set(g)) for g in space.batch]
        level = max((i + 1 for i, on in enumerate(batch) if on), default=0)
        if row:
            level = len(space.batch) + 1
        kind = {
            (True, True): Kind.FULL,
            (True, False): Kind.ROW,
            (False, True): Kind.VECTOR,
            (False, False): Kind.ONE,
        }[row, col]
        return Place(kind, level)


def short_rows(choices: Choices, dtype: DType, depth: Size, chip: ChipSpec) -> int:
    """Rows that share a partition while they are loaded, so that transfers are long runs.

    No more than leave the copies that put them in order at full rate.
    """
    row_bytes = max(depth) * dtype.itemsize
    most = min(choices.rows_each, chip.full_rate_stride_bytes // dtype.itemsize)
    return max(1, min(most, SHORT_ROWS_BYTES // row_bytes)) if row_bytes <= SHORT_ROW_BYTES else 1


def product_dtype(graph: Graph, node: Node) -> DType:
    """The dtype of both operands in SBUF.

    Raises:
        UnsupportedError: they differ, or are no floats.
    """
    dtypes = [graph[i].dtype for i in node.inputs]
    # bfloat16 holds what DMA widens, unless the other operand asks for another float.
    known = next((dtype for dtype in dtypes if dtype not in WIDENED), DType.BFLOAT16)
    first, second = (known if dtype in WIDENED else dtype for dtype in dtypes)
    if first is not second or not first.is_float:
        raise UnsupportedError(
            node.origin,
            f"its operands are {first.value} and {second.value}",
            hint="cast both to one floating-point dtype",
        )
    return first


def minor_stride(captured: Captured, node_id: int, dim: int) -> Size:
    """The stride of one of the last two axes of an operand at each shape set."""
    found = []
    for graph in captured.graphs:
        node = graph[node_id]
        strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
        found.append(strides[dim])
    return tuple(found)


def plan_transpose(
    captured: Captured, group: Group, *, buffers: Mapping[int, Stored], choices: Choices
) -> TransposePlan:
    """Plan one stored transpose."""
    graph = captured.graph
    node = graph[group.nodes[0]]
    view = graph[node.inputs[0]]
    rank = len(view.shape)
    minor = max(d for d in range(rank - 1) if view.strides[d] == 1 and view.shape[d] > 1) - rank
    order = list(range(-rank, 0))
    sizes, walks = [], []
    for g in captured.graphs:
        source = g[g[node.id].inputs[0]]
        sizes.append(dict(zip(order, source.shape, strict=True)))
        walks.append(
            [
                Walk(dict(zip(order, source.strides, strict=True)), source.offset),
                Walk(dict(zip(order, contiguous_strides(source.shape), strict=True)), 0),
            ]
        )
    fences = {minor + 1} | ({1 - rank} if group.loop else set())
    groups = merge_axes(order, sizes, walks, fences=frozenset(fences))
    n_group = next(g for g in groups if minor in g)
    m_group = groups[-1]
    loops = [g for g in groups if g not in (n_group, m_group)]
    m, n = group_size(m_group, sizes), group_size(n_group, sizes)
    inner = _neighbours(loops, (m_group, n_group), walks, sizes)
    is_blocked = inner is not None and max(n) < TRANSPOSE_SHORT // 2 and not group.loop
    if is_blocked and inner is not None:
        loops = [*(g for g in loops if g not in inner), *inner]
    sides = []
    for side, name in enumerate((buffers[graph.base(view.id).id].name, buffers[node.id].name)):
        own = [w[side] for w in walks]
        pair = (m_group, n_group) if side == 0 else (n_group, m_group)
        sides.append(
            Access(
                tensor=name,
                strides=tuple(group_stride(g, own, sizes) for g in (*loops, *pair)),
                offset=tuple(w.offset for w in own),
            )
        )
    is_short = max(m) <= TRANSPOSE_SHORT and max(n) > max(m)
    each = max(1, choices.transpose_cols // TRANSPOSE_SHORT)
    return TransposePlan(
        title="transpose",
        batch=tuple(group_size(g, sizes) for g in loops),
        source=sides[0],
        target=sides[1],
        dtype=buffers[node.id].dtype,
        m=m,
        n=n,
        col_block=choices.transpose_cols,
        rows_each=each if is_short and not (is_blocked or group.loop) else None,
        is_blocked=is_blocked,
        is_step=bool(group.loop),
    )


def _neighbours(
    loops: Sequence[AxisGroup],
    minor: tuple[AxisGroup, AxisGroup],
    walks: Sequence[Sequence[Walk]],
    sizes: Sequence[dict[int, int]],
) -> tuple[AxisGroup, AxisGroup] | None:
    """The loops whose steps in the source are whole rows, and whole runs of columns."""
    own = [w[0] for w in walks]
    found = []
    for group in minor:
        size, step = group_size(group, sizes), group_stride(group, own, sizes)
        reach = tuple(a * b for a, b in zip(size, step, strict=True))
        found.append(next((g for g in loops if group_stride(g, own, sizes) == reach), None))
    rows, cols = found
    is_small = max(group_size(minor[0], sizes)) <= TRANSPOSE_SHORT // 2
    if rows is None or cols is None or rows == cols or not is_small:
        return None
    return rows, cols
