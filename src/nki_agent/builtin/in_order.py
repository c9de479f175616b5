"""Reductions of values that only a view puts in another order, where nothing has to move.

Law: axes of one element may lie anywhere. A reduction over the last axis that has more of them
reads the value itself, so that it shares a stage with what else reads it. Values are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import Graph, Node, Op, contiguous_strides

Axes = tuple[int, ...]


def reduce_in_order(captured: Captured) -> Captured:
    """The same task with each such reduction over the axes of what is viewed."""
    by_graph = [_find(graph) for graph in captured.graphs]
    found = {n: axes for n, axes in by_graph[0].items() if all(f.get(n) == axes for f in by_graph)}
    if not found:
        return captured
    graphs = tuple(_rewrite(graph, found) for graph in captured.graphs)
    return Captured(graphs, captured.shape_sets)


def _find(graph: Graph) -> dict[int, Axes]:
    """The axes of the viewed value that each such reduction goes over."""
    pairs = ((node, _axes_below(graph, node)) for node in graph.nodes)
    return {node.id: axes for node, axes in pairs if axes is not None}


def _axes_below(graph: Graph, node: Node) -> Axes | None:
    if node.op is not Op.REDUCE or node.loop or graph[node.inputs[0]].op is not Op.VIEW:
        return None
    view = graph[node.inputs[0]]
    base = graph[view.inputs[0]]
    above, below = _moving(view.shape), _moving(base.shape)
    strides = contiguous_strides(base.shape)
    walked = [(view.shape[a], view.strides[a]) for a in above]
    if view.offset or view.is_fence or walked != [(base.shape[a], strides[a]) for a in below]:
        return None
    gone = tuple(b for a, b in zip(above, below, strict=True) if a in node.axes)
    shape = tuple(1 if a in gone else n for a, n in enumerate(base.shape))
    # With one element left out, or an axis elsewhere, other shape sets would have another graph.
    is_same = len(gone) == len(node.axes) and shape == node.shape
    return gone if is_same and gone != node.axes else None


def _moving(shape: Sequence[int]) -> list[int]:
    return [axis for axis, size in enumerate(shape) if size != 1]


def _rewrite(graph: Graph, found: dict[int, Axes]) -> Graph:
    nodes = tuple(
        replace(node, inputs=graph[node.inputs[0]].inputs, axes=found[node.id])
        if node.id in found
        else node
        for node in graph.nodes
    )
    return Graph(nodes, graph.arguments, graph.outputs)
