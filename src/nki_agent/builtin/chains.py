"""Two products with only elementwise nodes between them: attention without a softmax, and the like.

Law: the second product takes what the first one makes across its rows, so the first is written
turned, keys by queries, with all that lies between: then nothing is turned on the way, and what
lies between never leaves the chip. Nodes are rewritten only where nobody else reads them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nki_agent.builtin.align import group_size
from nki_agent.builtin.attention import AttentionPlanner
from nki_agent.builtin.balance import Estimate
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.chain_plan import ChainPlan
from nki_agent.builtin.choices import Choices, Phases
from nki_agent.builtin.columns import take_columns
from nki_agent.builtin.graph import (
    ELEMENTWISE,
    Graph,
    GraphBuilder,
    Node,
    Op,
    Shape,
    UnsupportedError,
    contiguous_strides,
)
from nki_agent.builtin.matching import Attention, Users, find_between
from nki_agent.builtin.pacing import Pacer
from nki_agent.builtin.plan import AttentionPlan, Stored
from nki_agent.builtin.products import product_dtype, short_rows
from nki_agent.builtin.pruning import prune
from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.small_attention import SmallAttentionPlanner
from nki_agent.builtin.small_attention_plan import SmallAttentionPlan
from nki_agent.builtin.stages import Group, StageKind
from nki_agent.builtin.stored_operands import is_mixed
from nki_agent.builtin.tile_steps import (
    Access,
    Activate,
    AffineSelect,
    Combine,
    Copy,
    Kind,
    Scale,
    ScaleCombine,
    Size,
    Step,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.builtin.titles import describe
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

MATRIX_RANK = 2
GAIN_MIN = 2
"""How many times more elements lie between than the operands and the result have together."""
NODES_MAX = 24
SHARED_PART = 0.25
"""Part of SBUF that a product which heads share may take."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """The nodes of one chain before it is turned."""

    product: int
    weights: int
    out: int
    between: tuple[int, ...]
    """Elementwise nodes, the weights among them."""
    seen: int
    """The product as they read it: itself, or a view that puts axes in front."""


# -- finding ---------------------------------------------------------------------------------------
def _find(graph: Graph) -> list[_Chain]:
    users = graph.users()
    products = [n for n in graph.nodes if n.op is Op.MATMUL and not (n.loop or is_mixed(graph, n))]
    found = (_match(graph, node, users) for node in products)
    return [chain for chain in found if chain is not None]


def _match(graph: Graph, out: Node, users: Users) -> _Chain | None:
    weights = graph[out.inputs[0]]
    if weights.op not in ELEMENTWISE or users[weights.id] != [out.id]:
        return None
    if len(weights.shape) <= MATRIX_RANK or weights.shape[:-2] != out.shape[:-2]:
        return None
    between = [*find_between(graph, weights, users), weights.id]
    if len(between) > NODES_MAX:
        return None
    inside = set(between)
    read = dict.fromkeys(i for n in between for i in graph[n].inputs)
    seen = [
        i
        for i in read
        if graph.base(i).op is Op.MATMUL and graph[i].shape[-2:] == weights.shape[-2:]
    ]
    if len(seen) != 1 or not set(users[seen[0]]) <= inside:
        return None
    product = graph.base(seen[0])
    if product.id != seen[0] and (users[product.id] != [seen[0]] or _lead(graph, seen[0]) is None):
        return None
    return _Chain(product.id, weights.id, out.id, tuple(between), seen[0])


def _lead(graph: Graph, view: int) -> tuple[int | None, ...] | None:
    """The leading axis of the base that each of a view is; None if it moves matrix axes."""
    node, base = graph[view], graph.base(view)
    if node.id == base.id:
        return tuple(range(len(base.shape) - MATRIX_RANK))
    steps = contiguous_strides(base.shape)
    if node.offset or node.strides[-2:] != steps[-2:] or node.shape[-2:] != base.shape[-2:]:
        return None
    found: list[int | None] = []
    for size, stride in zip(node.shape[:-2], node.strides[:-2], strict=True):
        axes = [a for a, s in enumerate(steps[:-2]) if s == stride and base.shape[a] == size]
        if size != 1 and stride and not axes:
            return None
        found.append(axes[0] if size != 1 and stride else None)
    moving = [a for a, size in enumerate(base.shape[:-2]) if size != 1]
    return tuple(found) if [a for a in found if a is not None] == moving else None


def _scaled_value(graph: Graph, chain: _Chain) -> tuple[int, int | None]:
    """The values, and the factor of each key that they are multiplied by for this alone."""
    value = graph[graph[chain.out].inputs[1]]
    users = graph.users()
    if value.op is not Op.BINARY or value.function != "multiply" or users[value.id] != [chain.out]:
        return value.id, None
    for at, source in enumerate(value.inputs):
        factor, other = graph[source], graph[value.inputs[1 - at]]
        is_column = len(factor.shape) > 1 and factor.shape[-1] == 1 < value.shape[-1]
        is_alone = factor.op is not Op.CONST and value.id not in graph.outputs
        if is_column and is_alone and other.shape == value.shape and other.dtype is value.dtype:
            return other.id, source
    return value.id, None


def _gains(graphs: Sequence[Graph], chain: _Chain) -> bool:
    """Whether what lies between is the most of it at the largest sizes."""
    graph = max(graphs, key=lambda g: g[chain.weights].num_elems)
    ends = (*graph[chain.product].inputs, graph[chain.out].inputs[1], chain.out)
    return graph[chain.weights].num_elems >= GAIN_MIN * sum(graph[i].num_elems for i in ends)


def _fits(graphs: Sequence[Graph], chain: _Chain, chip: ChipSpec) -> bool:
    """Whether operands of one batch fit SBUF, and a row of the result a PSUM bank."""
    bank = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    for graph in graphs:
        keys, queries = graph[chain.weights].shape[-1], graph[chain.weights].shape[-2]
        product, out = graph[chain.product], graph[chain.out]
        left, value = graph[product.inputs[0]], graph[out.inputs[1]]
        blocks = -(-left.shape[-1] // chip.partitions)
        held = blocks * (keys + queries) * left.dtype.itemsize
        held += -(-keys // chip.partitions) * value.shape[-1] * value.dtype.itemsize
        vectors = queries * DType.FLOAT32.itemsize * len(chain.between)
        tiles = bank * DType.FLOAT32.itemsize * 2 * len(chain.between)
        if 2 * held + vectors + tiles > chip.sbuf_usable_partition_bytes:
            return False
        if out.shape[-1] > bank or not (left.dtype.is_float and value.dtype.is_float):
            return False
    return True


# -- turning ---------------------------------------------------------------------------------------
def turn_chains(captured: Captured, chip: ChipSpec) -> tuple[Captured, list[Attention]]:
    """The same task with every chain that gains from it turned, and the chains."""
    found = [
        chain for chain in _find(captured.graph)
        if all(chain in _find(graph) for graph in captured.graphs[1:])
        and _gains(captured.graphs, chain) and _fits(captured.graphs, chain, chip)
    ]  # fmt: skip
    if not found:
        return captured, []
    turned = [_Turning(graph, found).turn() for graph in captured.graphs]
    ready = Captured(tuple(graph for graph, _ in turned), captured.shape_sets)
    return ready, turned[0][1]


class _Turning:
    """Writes one graph anew with chains turned."""

    def __init__(self, graph: Graph, chains: Sequence[_Chain]) -> None:
        self.graph = graph
        self.chains = {chain.out: chain for chain in chains}
        self.inside = {n for c in chains for n in (*c.between, c.seen, c.product)}
        self.builder = GraphBuilder(arguments=list(graph.arguments))
        self.new: dict[int, int] = {}

    def turn(self) -> tuple[Graph, list[Attention]]:
        """The new graph, and its chains in terms of it."""
        made: list[tuple[int, ...]] = []
        builder = self.builder
        for node in self.graph.nodes:
            builder.origin = node.origin
            if node.id in self.chains:
                made.append(self._chain(self.chains[node.id]))
            elif node.id not in self.inside:
                self.new[node.id] = builder.repeat(node, [self.new[i] for i in node.inputs])
        outputs = tuple(self.new[o] for o in self.graph.outputs)
        graph = prune(Graph(tuple(builder.nodes), self.graph.arguments, outputs))
        return graph, [_as_attention(graph, out) for out in _chain_ends(graph, builder, made)]

    def _chain(self, chain: _Chain) -> tuple[int, ...]:
        value, factor = _scaled_value(self.graph, chain)
        product = self._product(chain)
        if factor is not None:
            # It rides along where the weights are made, and the values are read as they are.
            product = self.builder.binary("multiply", product, self.new[factor])
        turned: dict[int, int] = {chain.seen: product}
        for node_id in chain.between:
            node = self.graph[node_id]
            self.builder.origin = node.origin
            inputs = [turned[i] if i in turned else self._operand(i) for i in node.inputs]
            shape = _swapped(node.shape)
            self.builder.nodes.append(
                replace(node, id=len(self.builder.nodes), inputs=tuple(inputs), shape=shape)
            )
            turned[node_id] = len(self.builder.nodes) - 1
        out = self.graph[chain.out]
        rank = len(out.shape)
        order = [*range(rank - 2), rank - 1, rank - 2]
        across = self.builder.permute(turned[chain.weights], order)
        self.new[out.id] = self.builder.repeat(out, [across, self.new[value]])
        return (self.new[out.id],)

    def _product(self, chain: _Chain) -> int:
        """K q^T for q k^T, with the leading axes that it is seen along."""
        product = self.graph[chain.product]
        lead = self.graph[chain.weights].shape[:-2]
        axes = _lead(self.graph, chain.seen)
        assert axes is not None
        axes = (None,) * (len(lead) - len(axes)) + axes
        sides = [self._side(source, len(product.shape), axes, lead) for source in product.inputs]
        first, second = sides
        left, right = self.builder.nodes[first], self.builder.nodes[second]
        shape = (*lead, right.shape[-2], left.shape[-1])
        return self.builder.add(
            op=Op.MATMUL, shape=shape, dtype=product.dtype, inputs=(second, first)
        )

    def _side(self, source: int, rank: int, axes: Sequence[int | None], lead: Shape) -> int:
        """An operand turned, along the leading axes of the whole."""
        node = self.graph[source]
        strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
        missing = rank - len(node.shape)
        walk, sizes = [], []
        for axis, size in zip(axes, lead, strict=True):
            own = None if axis is None else axis - missing
            moves = own is not None and own >= 0 and node.shape[own] != 1
            walk.append(strides[own] if moves and own is not None else 0)
            sizes.append(size)
        return self.builder.view(
            self.new[self.graph.base(source).id],
            shape=(*sizes, node.shape[-1], node.shape[-2]),
            strides=(*walk, strides[-1], strides[-2]),
            offset=node.offset if node.op is Op.VIEW else 0,
            is_moved=True,
        )

    def _operand(self, source: int) -> int:
        """Any other operand of what lies between, turned."""
        node = self.graph[source]
        shape = _swapped(node.shape)
        if not node.shape:
            return self.new[source]
        match node.op:
            case Op.CONST:
                return self.builder.const(node.value, shape, node.dtype)
            case Op.IOTA:
                steps = _swapped(node.strides, 0)
                return self.builder.iota(
                    shape, steps=steps, start=int(node.value), dtype=node.dtype
                )
            case _:
                strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
                return self.builder.view(
                    self.new[self.graph.base(source).id],
                    shape=shape,
                    strides=_swapped(strides, 0),
                    offset=node.offset if node.op is Op.VIEW else 0,
                    is_moved=True,
                )


def _swapped(sizes: Shape, missing: int = 1) -> Shape:
    """The last two exchanged; a row becomes a column."""
    if not sizes:
        return ()
    if len(sizes) == 1:
        return (sizes[0], missing)
    return (*sizes[:-2], sizes[-1], sizes[-2])


def _chain_ends(graph: Graph, builder: GraphBuilder, made: Sequence[tuple[int, ...]]) -> list[int]:
    """The ids of the second products in a graph that is numbered anew."""
    products = [n.id for n in builder.nodes if n.op is Op.MATMUL]
    kept = [n.id for n in graph.nodes if n.op is Op.MATMUL]
    assert len(products) == len(kept), "every product is needed"
    new_id = dict(zip(products, kept, strict=True))
    return [new_id[out] for (out,) in made]


def _as_attention(graph: Graph, out: int) -> Attention:
    """A turned chain; the weights take the place of a softmax."""
    users = graph.users()
    view = graph[graph[out].inputs[0]]
    weights = graph.base(view.id)
    between = [*find_between(graph, weights, users), weights.id]
    read = [graph[i] for n in between for i in graph[n].inputs]
    product = next(n for n in read if n.op is Op.MATMUL)
    made = sorted({product.id, *between, out})
    return Attention(product.id, weights.id, out, tuple(between), tuple(made))


# -- planning --------------------------------------------------------------------------------------
class ChainPlanner(AttentionPlanner):
    """Plans one turned chain: its first product has keys for rows, and queries for columns."""

    def plan_chain(self, choices: Choices) -> ChainPlan:
        """Plan the stage."""
        k_id, q_id = self.node.inputs
        v_id = self.out.inputs[1]
        space = self._space(k_id, q_id, v_id)
        lowering, product = self.start(space)
        for node_id in self.group.nodes:
            if node_id != self.node.id:
                lowering.lower(self.graph[node_id])
        value_dtype = product_dtype(self.graph, self.out)
        weights = lowering.settle(self.parts.softmax, "weights", value_dtype)
        if weights.kind is not Kind.FULL or weights.in_psum or weights.dtype is not value_dtype:
            raise UnsupportedError(self.out.origin, "its weights are the same for all queries")
        levels = [list(steps) for steps in lowering.levels]
        q, k = self._operand(space, q_id), self._operand(space, k_id)
        is_shared = self._is_shared(q, k)
        if is_shared:
            kept = {product: replace(product, in_psum=False)}
            levels[-1] = [with_tiles(step, kept) for step in levels[-1]]
            product = kept[product]
        columns, levels[-1] = take_columns(levels[-1])
        bank = self.chip.psum_bank_bytes // DType.FLOAT32.itemsize
        estimate = Estimate(self.chip, bank, len(self.captured.graphs), shares=choices.sharing)
        paced = Pacer(
            estimate=estimate,
            floor_ns=0.0,
            names=lowering.taken_names,
            num_tiles=max(self._num_blocks(graph, bank) for graph in self.captured.graphs),
            has_phases=choices.phases is not Phases.NONE,
            may_park=choices.parking,
            phases=choices.phases,
        ).pace(levels[-1])
        levels[-1] = list(paced.steps)
        graphs = self.captured.graphs
        depth = tuple(g[k_id].shape[-1] for g in graphs)
        return ChainPlan(
            title=describe(self.captured, (*self.group.nodes, self.out.id)),
            batch=tuple(group_size(g, space.sizes) for g in space.batch),
            q=q,
            k=k,
            v=self._operand(space, v_id),
            out=self._result(space),
            dtype=product_dtype(self.graph, self.node),
            value_dtype=value_dtype,
            out_dtype=self.buffers[self.out.id].dtype,
            queries=tuple(g[q_id].shape[-1] for g in graphs),
            keys=tuple(g[k_id].shape[-2] for g in graphs),
            depth=depth,
            value_depth=tuple(g[v_id].shape[-1] for g in graphs),
            rows_each=short_rows(choices, self.graph[q_id].dtype, depth, self.chip),
            product=product,
            weights=weights,
            is_shared=is_shared,
            columns=columns,
            levels=tuple(tuple(steps) for steps in levels),
            cuts=paced.cuts,
            ahead=_keys_ahead(levels[-1], weights),
        )

    def _is_shared(self, *operands: Access) -> bool:
        """Whether the innermost batch shares the product, and SBUF has room for all of it."""
        lanes, room = self.chip.partitions, self.chip.sbuf_usable_partition_bytes * SHARED_PART
        heads = [a.strides[-MATRIX_RANK - 1 : -MATRIX_RANK] for a in operands]
        if any(any(stride) for strides in heads for stride in strides) or not heads[0]:
            return False
        sizes = [g[self.node.id].shape for g in self.captured.graphs]
        return all(
            -(-keys // lanes) * queries * DType.FLOAT32.itemsize <= room
            for *_, keys, queries in sizes
        )

    def _num_blocks(self, graph: Graph, bank: int) -> int:
        """Blocks of keys for each group of queries, of all batches."""
        *batch, keys, queries = graph[self.node.id].shape
        return math.prod(batch) * -(-keys // self.chip.partitions) * -(-queries // bank)


def plan_both(
    captured: Captured,
    group: Group,
    *,
    buffers: Mapping[int, Stored],
    chip: ChipSpec,
    choices: Choices,
) -> AttentionPlan | SmallAttentionPlan | ChainPlan:
    """Plan two products and what lies between them: a softmax, or elementwise nodes alone."""
    if group.kind is StageKind.CHAIN:
        return ChainPlanner(captured, group, buffers=buffers, chip=chip).plan_chain(choices)
    attention = SmallAttentionPlanner(captured, group, buffers=buffers, chip=chip)
    return attention.plan_small() or attention.plan_attention(choices)


def _keys_ahead(steps: Sequence[Step], weights: Tile) -> Size | None:
    """How far behind its own position a query sees keys; None where it sees any.

    Only of a choice by position whose other side makes the weights 0.
    """
    for index, step in enumerate(steps):
        if not isinstance(step, AffineSelect) or not _is_zero_behind(steps[index:], weights):
            continue
        *batch, row, col = step.access.strides
        forward = all(r == -1 and c == 1 for r, c in zip(row, col, strict=True))
        backward = all(r == 1 and c == -1 for r, c in zip(row, col, strict=True))
        if any(any(s) for s in batch) or not (forward or backward):
            continue
        offset = step.access.offset if forward else tuple(-n for n in step.access.offset)
        op = step.op if forward else _MIRRORED.get(step.op, "")
        ahead = {"greater_equal": offset, "greater": tuple(n - 1 for n in offset)}.get(op)
        if ahead is not None and min(ahead) >= 0:
            return ahead
    return None


_MIRRORED = {"less": "greater", "less_equal": "greater_equal"}


def _is_zero_behind(steps: Sequence[Step], weights: Tile) -> bool:
    """Whether what the first step, a choice, puts in the place of a value makes the weights 0."""
    first = steps[0]
    assert isinstance(first, AffineSelect)
    values: Mapping[Tile, float] = {
        first.dst: first.value[0] if len(set(first.value)) == 1 else 1.0
    }
    for step in steps[1:]:
        known = {tile: values[tile] for tile in step_reads(step) if tile in values}
        made = _made_of(step, known)
        values = {**values, **dict.fromkeys(step_writes(step), made)}
    return values.get(weights) == 0.0


def _made_of(step: Step, known: Mapping[Tile, float]) -> float:
    """What a step makes where its operands are these numbers; 1 stands for anything."""
    zero = 0.0 in known.values()
    match step:
        case Activate(function="exp", scale=None, bias=None) if float("-inf") in known.values():
            return 0.0
        case Activate(function="copy", scale=None, bias=None) | Copy():
            return next(iter(known.values()), 1.0)
        case Activate(function="copy", bias=None):
            return 0.0 if zero else 1.0
        case Combine(op="multiply"):
            return 0.0 if zero else 1.0
        case Scale() if all(s.op == "multiply" for s in step.scalars):
            return 0.0 if zero else 1.0
        case ScaleCombine(op="multiply") if known.get(step.other) == 0.0:
            return 0.0
        case ScaleCombine(op="multiply") if step.scalar.op == "multiply":
            return 0.0 if zero else 1.0
        case AffineSelect(value=value) if zero and set(value) == {0.0}:
            return 0.0
        case _:
            return 1.0
