"""Divides a graph into stages: what one pass over HBM computes.

Law: a stage reads only kernel arguments and results of earlier stages. Elementwise nodes and row
reductions fuse with their neighbours while they share one iteration space; a product takes the
elementwise nodes that follow it; attention is one stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from nki_agent.builtin.align import Alignment, align
from nki_agent.builtin.graph import (
    ROWWISE,
    SOURCES,
    Graph,
    Node,
    Op,
    contiguous_strides,
    is_same_ranking,
)


class StageKind(StrEnum):
    """How a stage is written."""

    ROWS = "rows"
    MATMUL = "matmul"
    ATTENTION = "attention"
    TRANSPOSE = "transpose"
    PICK = "pick"


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of one stage in graph order. `attention` is set for that kind."""

    kind: StageKind
    nodes: tuple[int, ...]
    attention: Attention | None = None


@dataclass(frozen=True, slots=True)
class Attention:
    """The parts of attention: two products, a softmax between them, what changes the scores."""

    scores: int
    softmax: int
    out: int
    scale: int | None
    """A CONST node that the scores are multiplied by; `divides` says that it divides."""
    divides: bool
    mask: int | None
    """A node that is added to the scores."""
    nodes: tuple[int, ...]


def find_attention(graph: Graph) -> list[Attention]:
    """Every softmax(q k^T ...) v whose inner values nobody else reads."""
    users = graph.users()
    found = []
    for node in graph.nodes:
        if node.op is Op.MATMUL:
            attention = _match_attention(graph, node, users)
            if attention is not None:
                found.append(attention)
    return found


def _match_attention(graph: Graph, out: Node, users: dict[int, list[int]]) -> Attention | None:
    path: list[int] = [out.id]
    weights = _inner(graph, out.inputs[0], users, path)
    if weights is None or weights.op is not Op.SOFTMAX or weights.function != "softmax":
        return None
    path.append(weights.id)
    scale: int | None = None
    mask: int | None = None
    divides = False
    node = _inner(graph, weights.inputs[0], users, path)
    while node is not None and node.op is Op.BINARY:
        first, second = node.inputs
        path.append(node.id)
        is_const = graph[second].op is Op.CONST
        if node.function in ("multiply", "divide") and is_const and scale is None:
            scale, divides = second, node.function == "divide"
        elif node.function == "add" and not is_const and mask is None and scale is None:
            mask = second
        else:
            return None
        node = _inner(graph, first, users, path)
    if node is None or node.op is not Op.MATMUL:
        return None
    path.append(node.id)
    return Attention(node.id, weights.id, out.id, scale, divides, mask, tuple(sorted(path)))


def _inner(graph: Graph, node_id: int, users: dict[int, list[int]], path: list[int]) -> Node | None:
    """The node, through casts and views that keep its shape and have this one reader."""
    node = graph[node_id]
    while len(users[node.id]) == 1:
        is_cast = node.op is Op.UNARY and node.function == "copy"
        if not (is_cast or (node.op is Op.VIEW and _is_reshape(graph, node))):
            return node
        if is_cast:
            path.append(node.id)
        node = graph[node.inputs[0]]
    return None


def _is_reshape(graph: Graph, view: Node) -> bool:
    """Whether a view only merges or splits leading axes."""
    base = graph[view.inputs[0]]
    return (
        view.offset == 0
        and view.strides == contiguous_strides(view.shape)
        and view.shape[-2:] == base.shape[-2:]
        and view.num_elems == base.num_elems
    )


def divide(graph: Graph) -> list[Group]:
    """The stages of a graph in an order in which each comes after what it reads."""
    attentions = {a.out: a for a in find_attention(graph)}
    inside = {node: a for a in attentions.values() for node in a.nodes}
    groups: list[_Draft] = []
    owner: dict[int, _Draft] = {}
    for node in graph.nodes:
        if node.op in SOURCES | {Op.VIEW, Op.PARTS}:
            continue
        if node.id in inside:
            draft = _attention_draft(inside[node.id], groups)
        elif node.op is Op.MATMUL:
            draft = _Draft(StageKind.MATMUL, [node.id], seed=node.id)
            groups.append(draft)
        elif node.op is Op.TRANSPOSE:
            draft = _Draft(StageKind.TRANSPOSE, [node.id])
            groups.append(draft)
        elif node.op is Op.PICK:
            draft = _pick_draft(graph, node, groups)
        else:
            assert node.op in ROWWISE, node.op
            draft = _Draft(StageKind.ROWS, [node.id])
            groups.append(draft)
        owner[node.id] = draft
        if node.op in ROWWISE and node.id not in inside:
            _join_producers(graph, node, groups, owner)
    _join_siblings(graph, groups, owner)
    return [
        Group(d.kind, tuple(sorted(d.nodes)), d.attention) for d in _ordered(graph, groups, owner)
    ]


@dataclass(slots=True, eq=False)
class _Draft:
    kind: StageKind
    nodes: list[int]
    seed: int | None = None
    attention: Attention | None = None


def _attention_draft(attention: Attention, groups: list[_Draft]) -> _Draft:
    for draft in groups:
        if draft.attention == attention:
            return draft
    draft = _Draft(StageKind.ATTENTION, list(attention.nodes), attention=attention)
    groups.append(draft)
    return draft


def _pick_draft(graph: Graph, node: Node, groups: list[_Draft]) -> _Draft:
    """The largest values of a row and their places are found together."""
    for draft in groups:
        if draft.kind is StageKind.PICK and is_same_ranking(graph[draft.nodes[0]], node):
            draft.nodes.append(node.id)
            return draft
    draft = _Draft(StageKind.PICK, [node.id])
    groups.append(draft)
    return draft


def _join_producers(
    graph: Graph, node: Node, groups: list[_Draft], owner: dict[int, _Draft]
) -> None:
    for source in node.inputs:
        producer = owner.get(graph.base(source).id)
        consumer = owner[node.id]
        if producer is not None and producer is not consumer:
            _try_join(graph, producer, consumer, groups, owner)


def _join_siblings(graph: Graph, groups: list[_Draft], owner: dict[int, _Draft]) -> None:
    """Stages that read the same tensor along the same axes read it once."""
    for first in list(groups):
        for second in list(groups):
            rows = first.kind is second.kind is StageKind.ROWS
            alive = first in groups and second in groups and first is not second
            if rows and alive and _sources(graph, first) & _sources(graph, second):
                _try_join(graph, first, second, groups, owner)


def _sources(graph: Graph, draft: _Draft) -> set[int]:
    """Full-size outside values that a stage reads."""
    largest = max(graph[n].num_elems for n in draft.nodes)
    found = set()
    for node_id in draft.nodes:
        for source in graph[node_id].inputs:
            base = graph.base(source).id
            if base not in draft.nodes and graph[base].op not in (Op.CONST, Op.IOTA):
                largest = max(largest, graph[source].num_elems)
                found.add(source)
    return {source for source in found if graph[source].num_elems == largest}


def _try_join(
    graph: Graph, producer: _Draft, consumer: _Draft, groups: list[_Draft], owner: dict[int, _Draft]
) -> bool:
    fusing = (StageKind.ROWS, StageKind.MATMUL)
    if producer.kind not in fusing or consumer.kind is not StageKind.ROWS:
        return False
    nodes = sorted({*producer.nodes, *consumer.nodes})
    if _reads_parts(graph, nodes) or (producer.seed is not None and _by_position(graph, nodes)):
        return False
    alignment = align(graph, nodes, seed=producer.seed)
    if alignment is None or not _is_one_pass(alignment):
        return False
    if _reaches(graph, producer, consumer, owner) or _reaches(graph, consumer, producer, owner):
        return False
    producer.nodes = nodes
    groups.remove(consumer)
    for node_id in consumer.nodes:
        owner[node_id] = producer
    return True


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
    return len(moving - {frozenset()}) <= 1


def _reaches(graph: Graph, start: _Draft, end: _Draft, owner: dict[int, _Draft]) -> bool:
    """Whether `end` needs `start` through a third stage."""
    seen: set[int] = set()
    stack = [d for d in _needs(graph, end, owner) if d is not start]
    while stack:
        draft = stack.pop()
        if id(draft) in seen:
            continue
        seen.add(id(draft))
        needed = _needs(graph, draft, owner)
        if any(d is start for d in needed):
            return True
        stack.extend(d for d in needed if d is not end)
    return False


def _needs(graph: Graph, draft: _Draft, owner: dict[int, _Draft]) -> list[_Draft]:
    found: list[_Draft] = []
    for node_id in draft.nodes:
        for source in graph[node_id].inputs:
            base = graph.base(source)
            for made in base.inputs if base.op is Op.PARTS else (base.id,):
                maker = owner.get(made)
                if maker is not None and maker is not draft and maker not in found:
                    found.append(maker)
    return found


def _ordered(graph: Graph, groups: list[_Draft], owner: dict[int, _Draft]) -> list[_Draft]:
    done: list[_Draft] = []
    waiting = list(groups)
    while waiting:
        ready = [d for d in waiting if all(n in done for n in _needs(graph, d, owner))]
        assert ready, "stages need each other"
        done.extend(ready)
        waiting = [d for d in waiting if d not in ready]
    return done
