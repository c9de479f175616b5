"""A value that the reference computes twice is computed once.

Law: two nodes are one where they do the same with the same values at every shape set. Results keep
nodes of their own, and so does what is put beside others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import ROWWISE, Graph, Node, Op
from nki_agent.builtin.pruning import prune

SHARED = ROWWISE | {Op.TRANSPOSE, Op.FOLD}
"""What is computed once."""
SEEN_THROUGH = frozenset({Op.VIEW, Op.CONST, Op.IOTA})
"""What costs nothing, and differs only as what it is made of does."""


def share_values(captured: Captured) -> Captured:
    """The same graphs, where equal nodes are the first of them."""
    graph = captured.graph
    own = {graph.base(output).id for output in graph.outputs}
    own |= {part for node in graph.nodes if node.op is Op.PARTS for part in node.inputs}
    known: dict[object, int] = {}
    equal: dict[int, int] = {}
    shared: dict[int, int] = {}
    for node in graph.nodes:
        is_shared = node.op in SHARED and node.id not in own and node.function != "copy"
        if not is_shared and node.op not in SEEN_THROUGH:
            continue
        first = known.setdefault(tuple(_what(g[node.id], equal) for g in captured.graphs), node.id)
        if first != node.id:
            equal[node.id] = first
            if is_shared:
                shared[node.id] = first
    if not shared:
        return captured
    return replace(captured, graphs=tuple(_without(g, shared) for g in captured.graphs))


def _what(node: Node, equal: Mapping[int, int]) -> Node:
    """All that says what a node computes, over the first of its equal inputs."""
    inputs = tuple(equal.get(source, source) for source in node.inputs)
    return replace(node, id=0, inputs=inputs, origin="", label="")


def _without(graph: Graph, shared: Mapping[int, int]) -> Graph:
    nodes = tuple(
        replace(node, inputs=tuple(shared.get(source, source) for source in node.inputs))
        for node in graph.nodes
    )
    return prune(replace(graph, nodes=nodes))
