"""Reductions of turned values, made where the values lie.

Law: where an elementwise value that only a reduction needs reads a large value across its rows,
its small operands are turned instead, and the reduction goes across runs. Values are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nki_agent.builtin.graph import (
    ELEMENTWISE,
    Graph,
    GraphBuilder,
    Node,
    Op,
    Shape,
    contiguous_strides,
)

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """A reduction, the elementwise nodes that only it needs, and the order in which axes lie."""

    reduction: int
    nodes: tuple[int, ...]
    order: Order
    axes: Order
    """The axis of the elementwise value that each axis of what is reduced is."""


def find_sinks(graph: Graph) -> dict[int, Sink]:
    """What can be made where its largest operand lies, by reduction."""
    users = graph.users()
    found = (_sink(graph, node, users) for node in graph.nodes)
    return {sink.reduction: sink for sink in found if sink is not None}


def _sink(graph: Graph, node: Node, users: Mapping[int, Sequence[int]]) -> Sink | None:
    if node.op is not Op.REDUCE or node.loop:
        return None
    seen = graph[node.inputs[0]]
    top = graph.base(seen.id)
    axes = _axes_of(seen, top)
    if axes is None or list(users[seen.id]) != [node.id]:
        return None
    inside: set[int] = set()
    readers = {node.id, seen.id}
    for node_id in range(top.id, -1, -1):
        own = graph[node_id]
        whole = own.op in ELEMENTWISE and own.shape == top.shape and own.dtype.is_float
        if whole and users[node_id] and set(users[node_id]) <= readers | inside:
            inside.add(node_id)
    if top.id not in inside:
        return None
    orders = set()
    for source in {i for n in inside for i in graph[n].inputs if i not in inside}:
        leaf = graph[source]
        if leaf.op is Op.IOTA:
            return None
        if leaf.op is not Op.CONST and leaf.num_elems == top.num_elems:
            orders.add(_order_of(leaf))
    order = orders.pop() if len(orders) == 1 else None
    if order is None or not _runs_across(order, top.shape, [axes[a] for a in node.axes]):
        return None
    return Sink(node.id, tuple(sorted(inside)), order, axes)


def _axes_of(view: Node, base: Node) -> Order | None:
    """The axis of the base that each axis of a view is; None if it is no permutation."""
    if view.id == base.id:
        return tuple(range(len(base.shape)))
    order = _order_of(view)
    if order is None or len(view.shape) != len(base.shape):
        return None
    if tuple(view.shape[axis] for axis in order if view.shape[axis] != 1) != tuple(
        size for size in base.shape if size != 1
    ):
        return None
    moving = iter([axis for axis in order if view.shape[axis] != 1])
    still = iter([axis for axis in order if view.shape[axis] == 1])
    mine = [next(still) if size == 1 else next(moving) for size in base.shape]
    return tuple(mine.index(axis) for axis in range(len(mine)))


def _order_of(leaf: Node) -> Order | None:
    """The axes of a view from the outermost in memory; None if it is no permutation."""
    if leaf.op is not Op.VIEW:
        return None
    moving = [axis for axis, size in enumerate(leaf.shape) if size != 1]
    still = [axis for axis, size in enumerate(leaf.shape) if size == 1]
    order = (*still, *sorted(moving, key=lambda axis: -leaf.strides[axis]))
    shape = tuple(leaf.shape[axis] for axis in order)
    strides = contiguous_strides(shape)
    plain = all(leaf.strides[a] == s for a, s in zip(order, strides, strict=True) if a in moving)
    return order if plain and not leaf.offset else None


def _runs_across(order: Order, shape: Shape, axes: Sequence[int]) -> bool:
    """Whether what is reduced lies outside of what stays."""
    moving = [axis for axis in order if shape[axis] != 1]
    gone = [axis for axis in moving if axis in axes]
    return len(gone) == 1 and gone[0] in moving[:-1] and order != tuple(sorted(order))


def sink(graph: Graph, sinks: Mapping[int, Sink]) -> Graph:
    """The same graph with these reductions made so."""
    if not sinks:
        return graph
    inside = {node_id: s for s in sinks.values() for node_id in s.nodes}
    builder = GraphBuilder(arguments=list(graph.arguments))
    new_id: dict[int, int] = {}

    def made(source: int, reader: Node | None) -> int:
        """A value as its readers know it; a view of it walks the same elements in any shape."""
        found = new_id[source]
        is_seen = reader is not None and reader.op is Op.VIEW
        if source not in sinks or is_seen or builder.nodes[found].shape == graph[source].shape:
            return found
        shape = graph[source].shape
        return builder.view(found, shape=shape, strides=contiguous_strides(shape))

    for node in graph.nodes:
        builder.origin = node.origin
        if node.id in inside:
            order = inside[node.id].order
            sources = [
                new_id[i] if i in inside else _turned(builder, made(i, node), node.shape, order)
                for i in node.inputs
            ]
            shape = tuple(node.shape[axis] for axis in order)
            new_id[node.id] = builder.repeat(replace(node, shape=shape), sources)
        elif node.id in sinks:
            found = sinks[node.id]
            new_id[node.id] = _reduced(builder, node, new_id[found.nodes[-1]], found)
        else:
            new_id[node.id] = builder.repeat(node, [made(i, node) for i in node.inputs])
    outputs = tuple(made(o, None) for o in graph.outputs)
    return Graph(tuple(builder.nodes), graph.arguments, outputs)


def _reduced(builder: GraphBuilder, node: Node, source: int, found: Sink) -> int:
    """The reduction of what lies in another order, its results turned back."""
    gone = [found.axes[axis] for axis in node.axes]
    wanted = [axis for dim, axis in enumerate(found.axes) if dim not in node.axes]
    kept = [axis for axis in found.order if axis not in gone]
    seen = builder.permute(source, [found.order.index(axis) for axis in (*kept, *gone)])
    sizes = tuple(builder.nodes[seen].shape[: len(kept)])
    shape = (*sizes, *(1,) * len(gone))
    axes = tuple(range(len(kept), len(shape)))
    made = builder.repeat(replace(node, shape=shape, axes=axes), [seen])
    if kept == wanted:
        return made
    strides = contiguous_strides(sizes)
    back = [kept.index(axis) for axis in wanted]
    turned = builder.view(
        made,
        shape=tuple(sizes[axis] for axis in back),
        strides=tuple(strides[axis] for axis in back),
        is_moved=True,
    )
    return builder.unary("copy", turned)


def _turned(builder: GraphBuilder, source: int, shape: Shape, order: Order) -> int:
    """An operand along the axes in their order in memory."""
    node = builder.nodes[source]
    if node.op is Op.CONST:
        return builder.const(node.value, (), node.dtype)
    missing = len(shape) - len(node.shape)
    own = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
    sizes = (*(1,) * missing, *node.shape)
    strides = (*(1,) * missing, *own)
    return builder.view(
        builder.base_of(source),
        shape=tuple(sizes[axis] for axis in order),
        strides=tuple(strides[axis] for axis in order),
        offset=node.offset if node.op is Op.VIEW else 0,
        is_moved=True,
    )
