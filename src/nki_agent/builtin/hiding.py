"""A choice that hides values of an exponential is made as late as it can be.

Law: exp of what -inf hides is exp of all, hidden by 0, and a product with such a factor is hidden
by 0 itself: then the exponential is taken right where its operand is made, with the scale and bias
that it takes on the way, and may stay in PSUM. The other factor is taken to be finite. Nodes are
rewritten only where nobody else reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import Graph, GraphBuilder, Node, Op
from nki_agent.builtin.pruning import prune

Users = Mapping[int, Sequence[int]]
Pass = tuple[int, int]
"""Where a choice stands among the inputs of who reads it, and the side of it that is hidden."""
FIRST, SECOND = 1, 2
"""Where the two sides of a choice stand among its inputs."""


def hide_late(captured: Captured) -> Captured:
    """The same task with such choices behind their exponentials, and behind products of these."""
    return _pass_all(_pass_all(captured))


def _pass_all(captured: Captured) -> Captured:
    by_graph = [_find(graph) for graph in captured.graphs]
    found = {n: what for n, what in by_graph[0].items() if all(f.get(n) == what for f in by_graph)}
    if not found:
        return captured
    return replace(captured, graphs=tuple(_rewrite(graph, found) for graph in captured.graphs))


def _find(graph: Graph) -> dict[int, Pass]:
    """Who reads a choice that may be made behind it."""
    users = graph.users()
    found = {}
    for node in graph.nodes:
        passes = _exp_of_hidden(graph, node, users) or _product_of_hidden(graph, node, users)
        if passes is not None and not node.loop:
            found[node.id] = passes
    return found


def _exp_of_hidden(graph: Graph, node: Node, users: Users) -> Pass | None:
    if node.op is not Op.UNARY or node.function != "exp":
        return None
    side = _hidden_side(graph, node, users, at=0, value=float("-inf"))
    return None if side is None else (0, side)


def _product_of_hidden(graph: Graph, node: Node, users: Users) -> Pass | None:
    if node.op is not Op.BINARY or node.function != "multiply":
        return None
    for at in range(len(node.inputs)):
        side = _hidden_side(graph, node, users, at=at, value=0.0)
        if side is None or graph[node.inputs[at]].shape != node.shape:
            continue
        kept = graph[graph[node.inputs[at]].inputs[FIRST + SECOND - side]]
        other = graph.base(node.inputs[1 - at])
        if kept.op is Op.UNARY and kept.function == "exp" and other.op is Op.MATMUL:
            return at, side
    return None


def _hidden_side(graph: Graph, node: Node, users: Users, *, at: int, value: float) -> int | None:
    """The side with this number of a choice that nobody else reads."""
    choice = graph[node.inputs[at]]
    if choice.op is not Op.WHERE or users[choice.id] != [node.id]:
        return None
    if choice.id in graph.outputs or choice.dtype is not node.dtype:
        return None
    for side, other in ((FIRST, SECOND), (SECOND, FIRST)):
        hidden, kept = graph[choice.inputs[side]], graph[choice.inputs[other]]
        is_hidden = hidden.op is Op.CONST and hidden.value == value
        if is_hidden and kept.op is not Op.CONST and kept.dtype is node.dtype:
            return side
    return None


def _rewrite(graph: Graph, found: Mapping[int, Pass]) -> Graph:
    """Each reader is given the kept side, and the choice is made between what it makes and 0."""
    builder = GraphBuilder(arguments=list(graph.arguments))
    new: dict[int, int] = {}
    for node in graph.nodes:
        builder.origin = node.origin
        if node.id not in found:
            new[node.id] = builder.repeat(node, [new[i] for i in node.inputs])
            continue
        at, side = found[node.id]
        choice = graph[node.inputs[at]]
        kept = graph[choice.inputs[FIRST + SECOND - side]]
        inputs = [new[i] for i in node.inputs]
        inputs[at] = new[kept.id]
        # The kept side may be of a smaller shape, and so is its exponential.
        shape = kept.shape if len(inputs) == 1 else node.shape
        sides = [new[i] for i in choice.inputs]
        sides[FIRST + SECOND - side] = builder.repeat(replace(node, shape=shape), inputs)
        sides[side] = builder.const(0.0, graph[choice.inputs[side]].shape, node.dtype)
        new[node.id] = builder.repeat(replace(choice, shape=node.shape), sides)
    outputs = tuple(new[o] for o in graph.outputs)
    return prune(Graph(tuple(builder.nodes), graph.arguments, outputs))
