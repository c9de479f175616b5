"""Divides a graph into stages: what one pass over HBM computes.

Law: a stage reads only kernel arguments and results of earlier stages. Elementwise nodes and row
reductions fuse with their neighbours while they share one iteration space; a product takes the
elementwise nodes that follow it; attention is one stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from nki_agent.builtin.align import (
    Alignment,
    align,
    fits_window,
    inner_axes,
    merge_axes,
    outside_operands,
    walk_of,
)
from nki_agent.builtin.graph import (
    ROWWISE,
    SOURCES,
    WINDOWED,
    Graph,
    Node,
    Op,
    contiguous_strides,
)
from nki_agent.builtin.matching import Attention, find_attention

PAIR = 2
IMAGE_AXES = 2
"""Images and channels, before the pixels."""
STAGE_NODES_MAX = 256
"""A longer chain is cut: its function would be too long to read."""
WHOLE_ROWS_ELEMS = 2**15
"""Values of this many columns, all that a stage makes together, leave room in SBUF."""


class StageKind(StrEnum):
    """How a stage is written."""

    ROWS = "rows"
    MATMUL = "matmul"
    ATTENTION = "attention"
    TRANSPOSE = "transpose"
    CONVOLUTION = "convolution"
    POOL = "pool"
    PICK = "pick"
    FOLD = "fold"
    CHAIN = "chain"
    """Two products with only elementwise nodes between them."""
    RESIDENT = "resident"
    """All steps of a loop over time."""


LINEWISE = (StageKind.CONVOLUTION, StageKind.POOL)
"""What stores all pixels of a channel one after the other."""


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of one stage in graph order. `attention` is set for that kind."""

    kind: StageKind
    nodes: tuple[int, ...]
    attention: Attention | None = None
    loop: int = 0
    """The loop over time that it is a part of; 0 is none."""
    fold: int | None = None
    """The one of the nodes that adds up over a loop of the stage."""
    lookups: tuple[int, ...] = ()
    """Rows by index that it loads out of their tables; they are made nowhere else."""
    tail: tuple[int, ...] = ()
    """Of a product, the nodes of the pass over its whole rows that follows in the same stage."""


def divide(graphs: Sequence[Graph], chains: Sequence[Attention] = ()) -> list[Group]:
    """The stages of a graph in an order in which each comes after what it reads.

    `graphs` are the same graph at each shape set; nodes share a stage if they can at all of them.
    `chains` are those of the graph that are to be one stage each.
    """
    graph = graphs[0]
    attentions = {a.out: a for a in (*find_attention(graph), *chains)}
    inside = {node: a for a in attentions.values() for node in a.nodes}
    chained = {chain.out for chain in chains}
    groups: list[_Draft] = []
    owner: dict[int, _Draft] = {}
    for node in graph.nodes:
        if node.op in SOURCES | {Op.VIEW, Op.PARTS}:
            continue
        if node.id in inside:
            kind = StageKind.CHAIN if inside[node.id].out in chained else StageKind.ATTENTION
            draft = _attention_draft(inside[node.id], kind, groups)
        elif node.op is Op.MATMUL:
            draft = _Draft(StageKind.MATMUL, [node.id], seed=node.id)
            groups.append(draft)
        elif node.op in WINDOWED:
            draft = _Draft(StageKind(node.op.value), [node.id], seed=node.id)
            groups.append(draft)
        elif node.op in (Op.TRANSPOSE, Op.FOLD):
            draft = _Draft(StageKind(node.op.value), [node.id])
            groups.append(draft)
        elif node.op is Op.PICK:
            draft = _pick_draft(graph, node, groups)
        else:
            assert node.op in ROWWISE, node.op
            draft = _Draft(StageKind.ROWS, [node.id])
            groups.append(draft)
        owner[node.id] = draft
        draft.reads.update(_makers(graph, node))
        if node.op in ROWWISE and node.id not in inside:
            _join_producers(graphs, node, groups, owner)
    _join_siblings(graphs, groups, owner)
    _join_folds(graphs, groups, owner)
    return [
        Group(d.kind, tuple(sorted(d.nodes)), d.attention, _loop_of(graph, d), d.fold)
        for d in _ordered(graph, groups, owner)
    ]


@dataclass(slots=True, eq=False)
class _Draft:
    kind: StageKind
    nodes: list[int]
    seed: int | None = None
    attention: Attention | None = None
    reads: dict[int, None] = field(default_factory=dict)
    """Nodes that make what its nodes read, its own among them."""
    fold: int | None = None


def _attention_draft(attention: Attention, kind: StageKind, groups: list[_Draft]) -> _Draft:
    for draft in groups:
        if draft.attention == attention:
            return draft
    draft = _Draft(kind, list(attention.nodes), attention=attention)
    groups.append(draft)
    return draft


def _pick_draft(graph: Graph, node: Node, groups: list[_Draft]) -> _Draft:
    """The largest values of a row and their places are found together."""
    for draft in groups:
        if draft.kind is StageKind.PICK and _is_same_ranking(graph[draft.nodes[0]], node):
            draft.nodes.append(node.id)
            return draft
    draft = _Draft(StageKind.PICK, [node.id])
    groups.append(draft)
    return draft


def _is_same_ranking(first: Node, second: Node) -> bool:
    """Whether two nodes are the values and the places of one ranking of rows."""
    order = first.function.partition("_")[0]
    return (
        order in ("top", "bottom")
        and order == second.function.partition("_")[0]
        and first.inputs == second.inputs
        and first.shape == second.shape
    )


def _join_producers(
    graphs: Sequence[Graph], node: Node, groups: list[_Draft], owner: dict[int, _Draft]
) -> None:
    for source in node.inputs:
        producer = owner.get(graphs[0].base(source).id)
        consumer = owner[node.id]
        if producer is not None and producer is not consumer:
            _try_join(graphs, producer, consumer, groups, owner)


def _join_siblings(graphs: Sequence[Graph], groups: list[_Draft], owner: dict[int, _Draft]) -> None:
    """Stages that read the same tensor along the same axes read it once."""
    graph = graphs[0]
    for first in list(groups):
        for second in list(groups):
            rows = first.kind is second.kind is StageKind.ROWS
            alive = first in groups and second in groups and first is not second
            if rows and alive and _sources(graph, first) & _sources(graph, second):
                _try_join(graphs, first, second, groups, owner)


def _join_folds(graphs: Sequence[Graph], groups: list[_Draft], owner: dict[int, _Draft]) -> None:
    """What a scan's stage makes is added up before it leaves SBUF, where nobody else reads it."""
    graph = graphs[0]
    users = graph.users()
    for draft in [d for d in groups if d.kind is StageKind.FOLD]:
        node = graph[draft.nodes[0]]
        base = graph.base(node.inputs[0]).id
        maker = owner.get(base)
        if maker is None or maker.kind is not StageKind.ROWS or maker.fold is not None:
            continue
        has_scan = any(graph[n].op is Op.SCAN for n in maker.nodes)
        alone = users[base] == [node.inputs[0]] and users[node.inputs[0]] == [node.id]
        if has_scan and alone and all(_adds_up(g, maker.nodes, node.id) for g in graphs):
            maker.fold = node.id
            maker.nodes = sorted({*maker.nodes, node.id})
            maker.reads |= draft.reads
            groups.remove(draft)
            owner[node.id] = maker


def _adds_up(graph: Graph, nodes: Sequence[int], fold: int) -> bool:
    """Whether a reduction goes along one axis in front of the columns, and whole rows fit."""
    alignment = align(graph, nodes)
    node = graph[fold]
    axes = None if alignment is None else inner_axes(graph, node.inputs[0], alignment)
    if axes is None:
        return False
    shape = graph[node.inputs[0]].shape
    gone = [axes[a] for a in node.axes if shape[a] != 1]
    cols = shape[-1 - len(node.axes)]
    return len(gone) == 1 and gone[0] != -1 and cols * len(nodes) <= WHOLE_ROWS_ELEMS


def _sources(graph: Graph, draft: _Draft) -> set[tuple[object, ...]]:
    """Full-size outside values that a stage reads; parts of the same rows count as one."""
    largest = max(graph[n].num_elems for n in draft.nodes)
    found = set()
    for node_id in draft.nodes:
        for source in graph[node_id].inputs:
            base = graph.base(source).id
            if base not in draft.nodes and graph[base].op not in (Op.CONST, Op.IOTA):
                largest = max(largest, graph[source].num_elems)
                found.add(source)
    return {_rows_of(graph[source]) for source in found if graph[source].num_elems == largest}


def _rows_of(node: Node) -> tuple[object, ...]:
    """What two views have in common that differ in their columns alone."""
    is_view = node.op is Op.VIEW
    strides = node.strides if is_view else contiguous_strides(node.shape)
    return (node.inputs[0] if is_view else node.id, node.shape, strides[:-1])


def _try_join(
    graphs: Sequence[Graph],
    producer: _Draft,
    consumer: _Draft,
    groups: list[_Draft],
    owner: dict[int, _Draft],
) -> bool:
    graph = graphs[0]
    fusing = (StageKind.ROWS, StageKind.MATMUL, StageKind.CONVOLUTION, StageKind.POOL)
    if producer.kind not in fusing or consumer.kind is not StageKind.ROWS:
        return False
    nodes = sorted({*producer.nodes, *consumer.nodes})
    if len(nodes) > STAGE_NODES_MAX or not _may_share(graph, producer, nodes):
        return False
    for each in graphs:
        alignment = align(each, nodes, seed=producer.seed)
        if alignment is None or not _is_one_pass(alignment):
            return False
        if not _has_whole_rows(each, nodes, alignment):
            return False
        if producer.seed is not None and not fits_window(each, nodes, alignment, producer.seed):
            return False
        if producer.kind in LINEWISE and not _stores_whole_lines(each, consumer.nodes):
            return False
    if _reaches(producer, consumer, owner) or _reaches(consumer, producer, owner):
        return False
    producer.nodes = nodes
    producer.reads |= consumer.reads
    groups.remove(consumer)
    for node_id in consumer.nodes:
        owner[node_id] = producer
    return True


def _may_share(graph: Graph, producer: _Draft, nodes: Sequence[int]) -> bool:
    """Whether nothing but the shapes can keep these nodes apart."""
    if any(graph[n].op is Op.LANES for n in producer.nodes):
        return False  # its shares are whole only when its stage ends
    if len({graph[n].loop for n in nodes}) > 1 or _reads_fence(graph, nodes):
        return False
    by_position = producer.seed is not None and _by_position(graph, nodes)
    return not (by_position or _reads_parts(graph, nodes))


def _stores_whole_lines(graph: Graph, nodes: Sequence[int]) -> bool:
    """Whether what is put beside others is beside them along images or channels alone."""
    inside = set(nodes)
    return all(
        graph[part].shape[IMAGE_AXES:] == whole.shape[IMAGE_AXES:]
        for whole in graph.nodes
        if whole.op is Op.PARTS
        for part in inside.intersection(whole.inputs)
    )


def _reads_fence(graph: Graph, nodes: Sequence[int]) -> bool:
    """Whether one of the nodes reads another through a view that keeps their stages apart."""
    sources = [graph[source] for n in nodes for source in graph[n].inputs]
    return any(node.is_fence and graph.base(node.id).id in nodes for node in sources)


def _reads_parts(graph: Graph, nodes: Sequence[int]) -> bool:
    """Whether one of the nodes reads values side by side of which another makes a part."""
    inside = set(nodes)
    bases = [graph.base(source) for n in nodes for source in graph[n].inputs]
    return any(base.op is Op.PARTS and inside & set(base.inputs) for base in bases)


def _by_position(graph: Graph, nodes: Sequence[int]) -> bool:
    """Whether one of the nodes reads whole numbers along the axes."""
    return any(graph[source].op is Op.IOTA for n in nodes for source in graph[n].inputs)


def _is_one_pass(alignment: Alignment) -> bool:
    """All reductions run over the same trailing axes."""
    moving = {
        frozenset(axis for axis in gone if alignment.sizes[axis] != 1) for gone in alignment.reduced
    }
    found = moving - {frozenset()}
    return not found or (len(found) == 1 and _are_last(next(iter(found)), alignment))


def _are_last(gone: frozenset[int], alignment: Alignment) -> bool:
    """Whether no axis behind the first of them stays."""
    return all(
        axis in gone or size == 1 for axis, size in alignment.sizes.items() if axis > min(gone)
    )


def _has_whole_rows(graph: Graph, nodes: Sequence[int], alignment: Alignment) -> bool:
    """Whether what varies along one of several reduced axes goes along all of them in one stride.

    A number for each of some columns is no row: its stage is another one.
    """
    sizes = alignment.sizes
    gone = sorted({a for axes in alignment.reduced for a in axes if sizes[a] != 1})
    if len(gone) < PAIR:
        return True
    for node in nodes:
        varying = {a for a in alignment.axes[node] if a is not None and sizes[a] != 1}
        if varying & set(gone) not in (set(), set(gone)):
            return False
    for source, axes in outside_operands(graph, nodes, alignment):
        walk = walk_of(graph, source, axes, alignment)
        if len(merge_axes(gone, (sizes,), ((walk,),), fences=frozenset())) > 1:
            return False
    return True


def _reaches(start: _Draft, end: _Draft, owner: dict[int, _Draft]) -> bool:
    """Whether `end` needs `start` through a third stage."""
    seen: set[_Draft] = set()
    stack = [d for d in _needs(end, owner) if d is not start]
    while stack:
        draft = stack.pop()
        if draft in seen:
            continue
        seen.add(draft)
        needed = _needs(draft, owner)
        if start in needed:
            return True
        stack.extend(d for d in needed if d is not end)
    return False


def _loop_of(graph: Graph, draft: _Draft) -> int:
    return graph[draft.nodes[0]].loop


def _first_rows(graph: Graph, base: Node) -> Node:
    """For a state, what the first step finds; for any other value, itself."""
    if base.op is not Op.STATE:
        return base
    written = next(n for n in graph.nodes if n.op is Op.PARTS and n.name == base.name)
    return graph[written.inputs[0]]


def _makers(graph: Graph, node: Node) -> dict[int, None]:
    """The nodes that make what a node reads, seen through views and what lies side by side."""
    found: dict[int, None] = {}
    for source in node.inputs:
        base = _first_rows(graph, graph.base(source))
        found |= dict.fromkeys(base.inputs if base.op is Op.PARTS else (base.id,))
    return found


def _needs(draft: _Draft, owner: dict[int, _Draft]) -> dict[_Draft, None]:
    """The other stages that it reads from."""
    found = {owner[node]: None for node in draft.reads if node in owner}
    found.pop(draft, None)
    return found


def _ordered(graph: Graph, groups: list[_Draft], owner: dict[int, _Draft]) -> list[_Draft]:
    done: dict[_Draft, None] = {}
    waiting = {draft: _needs(draft, owner) for draft in groups}
    while waiting:
        ready = [d for d, needed in waiting.items() if needed.keys() <= done.keys()]
        assert ready, "stages need each other"
        # A loop begins when all that its steps need is there, and nothing comes between them.
        outside = [d for d in ready if not _loop_of(graph, d)]
        open_loop = _loop_of(graph, next(reversed(done))) if done else 0
        steps = [d for d in ready if _loop_of(graph, d) == open_loop != 0]
        started = steps or [d for d in ready if _loop_of(graph, d) == _loop_of(graph, ready[0])]
        for draft in steps or outside or started:
            done[draft] = None
            del waiting[draft]
    return list(done)
