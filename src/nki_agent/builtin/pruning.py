"""A graph without what nobody reads.

Law: a state of a loop is read by its next step, so that what writes it stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nki_agent.builtin.graph import Graph, GraphBuilder, Op


def finish(builder: GraphBuilder, outputs: Sequence[int]) -> Graph:
    """The graph of a builder without dead nodes."""
    return prune(Graph(tuple(builder.nodes), tuple(builder.arguments), tuple(outputs)))


def prune(graph: Graph) -> Graph:
    """Drop the nodes that no output needs and number the rest anew."""
    needed: set[int] = set()
    written = {n.name: n.id for n in graph.nodes if n.op is Op.PARTS and n.name}
    stack = list(graph.outputs)
    while stack:
        node_id = stack.pop()
        if node_id not in needed:
            needed.add(node_id)
            stack.extend(graph[node_id].inputs)
            if graph[node_id].op is Op.STATE:
                stack.append(written[graph[node_id].name])
    new_id = {old: new for new, old in enumerate(sorted(needed))}
    nodes = tuple(
        replace(node, id=new_id[node.id], inputs=tuple(new_id[i] for i in node.inputs))
        for node in graph.nodes
        if node.id in needed
    )
    return Graph(nodes, graph.arguments, tuple(new_id[i] for i in graph.outputs))
