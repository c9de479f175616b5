"""Softmax as the graph has it: with a score beside the others, and taken apart.

Law: a softmax over values and one more of each row, of which only the former are read, is a SOFTMAX
with two inputs. Its result is the same: the one more counts in the maximum and in the sum.
"""

from __future__ import annotations

from dataclasses import replace

from nki_agent.builtin.graph import (
    Graph,
    GraphBuilder,
    Node,
    Op,
    UnsupportedError,
    contiguous_strides,
)
from nki_agent.builtin.pruning import prune

PAIR = 2


def join_scores(graph: Graph) -> Graph:
    """Give each softmax of scores and one more the two as its inputs."""
    users = graph.users()
    found = {node.id: pair for node in graph.nodes if (pair := _pair_of(graph, node, users))}
    if not found:
        return graph
    builder = GraphBuilder(arguments=list(graph.arguments))
    new_id: dict[int, int] = {}
    for node in graph.nodes:
        builder.origin = node.origin
        if node.op is Op.VIEW and node.inputs[0] in found:
            new_id[node.id] = new_id[node.inputs[0]]
        elif node.id in found:
            scores, beside = found[node.id]
            joined = builder.repeat(node, (new_id[scores], new_id[beside]))
            shape = graph[scores].shape
            builder.nodes[joined] = replace(builder.nodes[joined], shape=shape)
            new_id[node.id] = joined
        else:
            new_id[node.id] = builder.repeat(node, [new_id[i] for i in node.inputs])
    outputs = tuple(new_id[o] for o in graph.outputs)
    return prune(Graph(tuple(builder.nodes), graph.arguments, outputs))


def _pair_of(graph: Graph, node: Node, users: dict[int, list[int]]) -> tuple[int, int] | None:
    """The scores and the one beside them; None where the node is no such softmax."""
    if node.op is not Op.SOFTMAX or node.function != "softmax" or node.loop or node.causal:
        return None
    whole = graph[node.inputs[0]]
    if whole.op is not Op.PARTS or len(whole.inputs) != PAIR or users[whole.id] != [node.id]:
        return None
    scores, beside = (graph[i] for i in whole.inputs)
    width = scores.shape[-1]
    if scores.shape != (*whole.shape[:-1], width) or beside.shape != (*whole.shape[:-1], 1):
        return None
    if whole.places != (0, width):
        return None
    cut = contiguous_strides(whole.shape)
    for user in users[node.id]:
        view = graph[user] if user >= 0 else node
        if view.op is not Op.VIEW or (view.shape, view.strides) != (scores.shape, cut):
            return None
        if view.offset:
            return None
    return scores.inputs[0], beside.inputs[0]


def expand_softmax(graph: Graph, keep: frozenset[int]) -> Graph:
    """Replace each softmax by row maximum, exponentials and row sum, but for those in `keep`."""
    if not any(node.op is Op.SOFTMAX and node.id not in keep for node in graph.nodes):
        return graph
    builder = GraphBuilder(arguments=list(graph.arguments))
    new_id: dict[int, int] = {}
    for node in graph.nodes:
        builder.origin = node.origin
        inputs = [new_id[i] for i in node.inputs]
        if node.op is not Op.SOFTMAX or node.id in keep:
            new_id[node.id] = builder.repeat(node, inputs)
            continue
        builder.loop = node.loop
        new_id[node.id] = _expand(builder, node, *inputs)
        made = builder.nodes[new_id[node.id]]
        if made.dtype is not node.dtype:
            new_id[node.id] = builder.cast(made.id, node.dtype)
        builder.loop = 0
    return Graph(tuple(builder.nodes), graph.arguments, tuple(new_id[o] for o in graph.outputs))


def _expand(builder: GraphBuilder, node: Node, x: int, beside: int | None = None) -> int:
    if node.causal:
        raise UnsupportedError("softmax", "a causal mask is covered inside attention only")
    top = builder.reduce("maximum", x, node.axes, keepdims=True)
    if beside is not None:
        top = builder.binary("maximum", top, beside)
    shifted = builder.binary("subtract", x, top)
    exps = builder.unary("exp", shifted)
    total = builder.reduce("add", exps, node.axes, keepdims=True)
    if beside is not None:
        more = builder.unary("exp", builder.binary("subtract", beside, top))
        total = builder.binary("add", total, more)
    if node.function == "log_softmax":
        return builder.binary("subtract", shifted, builder.unary("log", total))
    return builder.binary("divide", exps, total)
