"""Recognises attention in a graph, and reductions of what lies apart.

Law: a node belongs to an attention only if nobody outside reads it, so that nothing is lost when
its value never reaches HBM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nki_agent.builtin.align import align
from nki_agent.builtin.graph import ELEMENTWISE, Graph, Node, Op, contiguous_strides

Users = Mapping[int, Sequence[int]]
FOLDED = frozenset({"add", "maximum", "minimum"})
"""Reductions that may be made across runs."""


@dataclass(frozen=True, slots=True)
class Attention:
    """The parts of one attention, by node."""

    scores: int
    softmax: int
    out: int
    between: tuple[int, ...]
    """Elementwise nodes that make the softmax's input from the scores."""
    nodes: tuple[int, ...]
    """All of them."""


def find_attention(graph: Graph) -> list[Attention]:
    """Every softmax(f(q k^T)) v whose inner values nobody else reads."""
    users = graph.users()
    products = [node for node in graph.nodes if node.op is Op.MATMUL and not node.loop]
    found = (_match(graph, node, users) for node in products)
    return [attention for attention in found if attention is not None]


def _match(graph: Graph, out: Node, users: Users) -> Attention | None:
    path: list[int] = [out.id]
    weights = _inner(graph, out.inputs[0], users, path)
    if weights is None or weights.op is not Op.SOFTMAX or weights.function != "softmax":
        return None
    if weights.shape != graph[out.inputs[0]].shape or out.shape[:-2] != weights.shape[:-2]:
        return None
    between = find_between(graph, weights, users)
    scores = [
        graph[i]
        for i in _products_of(graph, weights, between)
        if set(users[i]) <= {weights.id, *between} and graph[i].shape == weights.shape
    ]
    for product in scores[:1]:
        for chosen in (between, _made_from(graph, product, between)):
            if align(graph, [product.id, *chosen], seed=product.id) is not None:
                nodes = sorted({*path, weights.id, product.id, *chosen})
                return Attention(
                    product.id, weights.id, out.id, tuple(sorted(chosen)), tuple(nodes)
                )
    return None


def find_between(graph: Graph, end: Node, users: Users) -> list[int]:
    """Elementwise nodes that only this one needs, without what makes the score beside others."""
    inside = {end.id}
    beside = {graph.base(i).id for i in end.inputs[1:]} if end.op is Op.SOFTMAX else set()
    for node_id in range(end.id - 1, -1, -1):
        node = graph[node_id]
        if node_id in beside:
            beside |= {graph.base(i).id for i in node.inputs}
        elif node.op in ELEMENTWISE and users[node_id] and set(users[node_id]) <= inside:
            inside.add(node_id)
    return sorted(inside - {end.id})


def _products_of(graph: Graph, softmax: Node, between: Sequence[int]) -> list[int]:
    """Products that they read, in graph order."""
    read = {i for n in (softmax.id, *between) for i in graph[n].inputs}
    return sorted(i for i in read if graph[i].op is Op.MATMUL)


def _made_from(graph: Graph, product: Node, between: Sequence[int]) -> list[int]:
    """Those of the nodes that depend on the product."""
    inside = {product.id}
    for node_id in between:
        if any(i in inside for i in graph[node_id].inputs):
            inside.add(node_id)
    return sorted(inside - {product.id})


def _inner(graph: Graph, node_id: int, users: Users, path: list[int]) -> Node | None:
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


def find_folds(graph: Graph) -> frozenset[int]:
    """The reductions that are made so, of values that nobody reads along the same axes."""
    users = graph.users()
    found = set()
    for node in graph.nodes:
        if node.op is not Op.REDUCE or node.loop or node.function not in FOLDED:
            continue
        view = graph[node.inputs[0]]
        alone = all(i >= 0 and graph[i].op is Op.REDUCE for i in users[view.id])
        if alone and view.dtype.is_float and _lies_apart(node, view):
            found.add(node.id)
    return frozenset(found)


def _lies_apart(node: Node, view: Node) -> bool:
    """Whether the last axis that stays is one run, and the reduced ones are one stride."""
    if view.op is not Op.VIEW:
        return False
    axes = [a for a, size in enumerate(view.shape) if size != 1]
    kept = [a for a in axes if a not in node.axes]
    gone = [a for a in axes if a in node.axes]
    if not kept or not gone or view.strides[kept[-1]] != 1:
        return False
    return all(view.strides[a] == view.strides[b] * view.shape[b] for a, b in pairwise(gone))
