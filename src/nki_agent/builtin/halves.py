"""Makes the two halves of a product apart where they meet again, as in a gated unit.

Law: columns of x @ w are x @ columns of w. Two halves that elementwise nodes join are two products
side by side, of which neither needs to reach HBM; as one product they lie in different tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import (
    ELEMENTWISE,
    SOURCES,
    Graph,
    GraphBuilder,
    Node,
    Op,
    contiguous_strides,
)
from nki_agent.builtin.pruning import prune

Users = Mapping[int, Sequence[int]]
HALVES = 2


def make_halves_apart(captured: Captured) -> Captured:
    """The same graphs with such products in two."""
    by_graph = [_find(graph) for graph in captured.graphs]
    found = {n for n in by_graph[0] if all(n in other for other in by_graph)}
    if not found:
        return captured
    return replace(captured, graphs=tuple(_rewrite(graph, found) for graph in captured.graphs))


def _find(graph: Graph) -> set[int]:
    """Views of one half of what a product makes, whose other half they meet."""
    users = graph.users()
    found: set[int] = set()
    for whole in graph.nodes:
        views = [graph[reader] for reader in users[whole.id] if reader >= 0]
        if len(views) != HALVES or -1 in users[whole.id] or whole.loop:
            continue
        if all(_is_half(v, whole) for v in views) and views[0].offset != views[1].offset:
            meet = _reach(graph, views[0], users) & _reach(graph, views[1], users)
            if meet and _comes_from_product(graph, whole, users):
                found |= {view.id for view in views}
    return found


def _is_half(view: Node, whole: Node) -> bool:
    """Whether a view is the first or the second half of all columns."""
    if view.op is not Op.VIEW or view.is_fence or len(view.shape) != len(whole.shape):
        return False
    width = view.shape[-1]
    is_half = HALVES * width == whole.shape[-1] and view.offset in (0, width)
    same_rows = view.shape[:-1] == whole.shape[:-1]
    return is_half and same_rows and view.strides == contiguous_strides(whole.shape)


def _reach(graph: Graph, node: Node, users: Users) -> set[int]:
    """Elementwise nodes that depend on a node through such nodes alone."""
    found: set[int] = set()
    waiting = [node.id]
    while waiting:
        for reader in users[waiting.pop()]:
            if reader >= 0 and reader not in found and graph[reader].op in ELEMENTWISE:
                found.add(reader)
                waiting.append(reader)
    return found


def _comes_from_product(graph: Graph, node: Node, users: Users) -> bool:
    """Whether it is a product by weights, or one with elementwise steps that can be cut too."""
    if node.op is Op.MATMUL:
        return graph.base(node.inputs[1]).op in SOURCES
    if node.op not in ELEMENTWISE:
        return False
    made = [i for i in node.inputs if graph.base(i).op not in SOURCES]
    if len(made) != 1 or graph[made[0]].shape != node.shape or users[made[0]] != [node.id]:
        return False
    return _comes_from_product(graph, graph[made[0]], users)


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Makes some columns of a value anew."""

    graph: Graph
    builder: GraphBuilder
    new: Mapping[int, int]
    start: int
    width: int

    def make(self, node: Node) -> int:
        """Columns of what a product makes, or of what elementwise steps make of it."""
        shape = (*node.shape[:-1], self.width)
        if node.op is Op.MATMUL:
            x, w = node.inputs
            inputs = [self.new[x], self.cut(self.graph[w])]
        else:
            inputs = [
                self.cut(self.graph[i])
                if self.graph.base(i).op in SOURCES
                else self.make(self.graph[i])
                for i in node.inputs
            ]
        return self.builder.repeat(replace(node, shape=shape), inputs)

    def cut(self, node: Node) -> int:
        """Columns of an argument; what has one column alone has it for all."""
        if not node.shape or node.shape[-1] == 1:
            return self.new[node.id]
        shape = (*node.shape[:-1], self.width)
        if node.op is Op.VIEW:
            strides, offset, base = node.strides, node.offset, node.inputs[0]
        else:
            strides, offset, base = contiguous_strides(node.shape), 0, node.id
        offset += self.start * strides[-1]
        return self.builder.view(self.new[base], shape=shape, strides=strides, offset=offset)


def _rewrite(graph: Graph, halves: set[int]) -> Graph:
    builder = GraphBuilder(arguments=list(graph.arguments))
    new: dict[int, int] = {}
    for node in graph.nodes:
        builder.origin = node.origin
        if node.id not in halves:
            new[node.id] = builder.repeat(node, [new[i] for i in node.inputs])
            continue
        cutter = _Cutter(graph, builder, new, node.offset, node.shape[-1])
        new[node.id] = cutter.make(graph[node.inputs[0]])
    outputs = tuple(new[o] for o in graph.outputs)
    return prune(Graph(tuple(builder.nodes), graph.arguments, outputs))
