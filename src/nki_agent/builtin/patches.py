"""Convolutions whose windows lie side by side, as products: every patch is a row.

Law: only where the result is read patch by patch, so that nothing is turned behind the product.
The patches are stored once, a whole row each.
"""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import Graph, GraphBuilder, Node, Op
from nki_agent.builtin.pruning import prune

IMAGE_RANK = 4
"""Images, channels, lines and columns."""


@dataclass(frozen=True, slots=True)
class _Patches:
    """A convolution, the bias that is added to it (or -1), and the value that is read."""

    convolution: int
    bias: int
    added: int
    out: int


def patches_as_rows(captured: Captured) -> Captured:
    """The same task with every such convolution as a product of patches and weights."""
    found = _find(captured.graph)
    found = [one for one in found if all(one in _find(graph) for graph in captured.graphs[1:])]
    if not found:
        return captured
    graphs = tuple(_rewrite(graph, found) for graph in captured.graphs)
    return Captured(graphs, captured.shape_sets)


def _find(graph: Graph) -> list[_Patches]:
    users = graph.users()
    found = []
    for node in graph.nodes:
        if node.op is not Op.CONVOLUTION or not _is_side_by_side(graph, node):
            continue
        added, bias = node.id, -1
        if len(users[node.id]) == 1 and (reader := users[node.id][0]) >= 0:
            bias = _bias_of(graph, graph[reader], node)
            added = reader if bias >= 0 else node.id
        if len(users[added]) != 1 or users[added][0] < 0:
            continue
        view = graph[users[added][0]]
        out = graph[users[view.id][0]] if len(users[view.id]) == 1 else view
        if out.op is Op.TRANSPOSE and _is_patch_by_patch(graph[added], view):
            found.append(_Patches(node.id, bias, added, out.id))
    return found


def _is_side_by_side(graph: Graph, node: Node) -> bool:
    """Whether each pixel is in one window, and all channels are summed up."""
    window, (x, weight) = node.window, node.inputs
    assert window is not None
    is_plain = len(node.shape) == IMAGE_RANK and node.function == "dense"
    if not is_plain or window.is_transposed or graph[x].op is Op.VIEW:
        return False
    if graph[weight].op is Op.VIEW or window.kernel != window.stride or set(window.before) != {0}:
        return False
    return set(window.dilation) == {1} and max(window.kernel) > 1


def _bias_of(graph: Graph, reader: Node, product: Node) -> int:
    """The vector that a node adds to each channel; -1 if it does something else."""
    if reader.op is not Op.BINARY or reader.function != "add" or reader.inputs[0] != product.id:
        return -1
    view = graph[reader.inputs[1]]
    base = graph.base(view.id)
    is_column = view.op is Op.VIEW and view.shape[-3:] == (product.shape[1], 1, 1)
    return base.id if is_column and base.shape == (product.shape[1],) else -1


def _is_patch_by_patch(value: Node, view: Node) -> bool:
    """Whether a view has all patches of an image, each a row of channels."""
    images, channels, lines, columns = value.shape
    patches = lines * columns
    if view.op is not Op.VIEW or view.shape != (images, patches, channels) or view.offset:
        return False
    wanted = (channels * patches, 1, patches)
    pairs = zip(view.shape, view.strides, wanted, strict=True)
    return all(size == 1 or a == b for size, a, b in pairs)


def _rewrite(graph: Graph, found: list[_Patches]) -> Graph:
    builder = GraphBuilder(arguments=list(graph.arguments), keeps_views=True)
    ends = {one.out: one for one in found}
    new: dict[int, int] = {}
    for node in graph.nodes:
        builder.origin = node.origin
        if node.id in ends:
            new[node.id] = _product(graph, builder, ends[node.id], new)
        else:
            new[node.id] = builder.repeat(node, [new[i] for i in node.inputs])
    outputs = tuple(new[o] for o in graph.outputs)
    return prune(Graph(tuple(builder.nodes), graph.arguments, outputs))


def _product(graph: Graph, builder: GraphBuilder, one: _Patches, new: dict[int, int]) -> int:
    node = graph[one.convolution]
    x, weight = (graph[i] for i in node.inputs)
    assert node.window is not None
    images, channels, height, width = x.shape
    _, outs, lines, columns = node.shape
    tall, wide = node.window.kernel
    depth, patches = channels * tall * wide, lines * columns
    builder.origin = "patches"
    seen = builder.view(
        new[x.id],
        shape=(images, lines, columns, channels, tall, wide),
        strides=(channels * height * width, tall * width, wide, height * width, width, 1),
        is_moved=True,
    )
    rows = builder.view(
        builder.unary("copy", seen),
        shape=(images, patches, depth),
        strides=(patches * depth, depth, 1),
        is_moved=True,
    )
    builder.origin = node.origin
    taps = builder.view(new[weight.id], shape=(depth, outs), strides=(1, depth), is_moved=True)
    product = builder.add(
        op=Op.MATMUL, shape=(images, patches, outs), dtype=node.dtype, inputs=(rows, taps)
    )
    if one.bias < 0:
        return product
    return builder.binary("add", product, new[one.bias], graph[one.added].dtype)
