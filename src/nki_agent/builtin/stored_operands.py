"""Products of whole numbers of eight bits, which DMA widens while it loads them.

Law: a float of 16 bits holds every such number, so that a cast of an argument that products alone
read is no stage of its own. One that anything else reads stays, and so do parts of attentions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import Graph, Node, Op
from nki_agent.builtin.matching import find_attention
from nki_agent.builtin.pruning import prune
from nki_agent.isa.dtype import DType

WIDENED = (DType.INT8, DType.UINT8)
WIDE = (DType.BFLOAT16, DType.FLOAT16)


def read_as_stored(captured: Captured) -> Captured:
    """The same task, where products read such arguments themselves."""
    found = _find(captured.graph)
    for graph in captured.graphs[1:]:
        found &= _find(graph)
    if not found:
        return captured
    return replace(captured, graphs=tuple(_without(graph, found) for graph in captured.graphs))


def is_mixed(graph: Graph, product: Node) -> bool:
    """Whether DMA widens an operand of a product."""
    return any(graph[operand].dtype in WIDENED for operand in product.inputs)


def _find(graph: Graph) -> set[int]:
    """The casts."""
    users = graph.users()
    taken = {node for attention in find_attention(graph) for node in attention.nodes}
    return {
        node.id
        for node in graph.nodes
        if _is_cast(graph, node) and _is_multiplied(graph, node, users, taken=taken)
    }


def _is_cast(graph: Graph, node: Node) -> bool:
    """Whether a node widens an argument, however it is seen."""
    if node.op is not Op.UNARY or node.function != "copy" or node.dtype not in WIDE or node.loop:
        return False
    source = graph[_stored(graph, node)]
    return source.dtype in WIDENED and graph.base(source.id).op is Op.INPUT


def _stored(graph: Graph, cast: Node) -> int:
    """What a cast widens, before a copy that turns it: a product turns what it reads itself."""
    source = graph[cast.inputs[0]]
    return source.inputs[0] if source.op is Op.TRANSPOSE else source.id


def _is_multiplied(
    graph: Graph,
    cast: Node,
    users: dict[int, list[int]],
    *,
    taken: Collection[int],
) -> bool:
    """Whether products outside loops and attentions are all that reads a cast."""
    views = [reader for reader in users[cast.id] if reader >= 0 and graph[reader].op is Op.VIEW]
    if views and graph[_stored(graph, cast)].op is Op.VIEW:
        return False
    readers = [r for node in (cast.id, *views) for r in users[node] if r not in views]
    return all(_multiplies(graph, reader) and reader not in taken for reader in readers)


def _multiplies(graph: Graph, reader: int) -> bool:
    return reader >= 0 and graph[reader].op is Op.MATMUL and not graph[reader].loop


def _without(graph: Graph, casts: Collection[int]) -> Graph:
    def stored(inputs: Sequence[int]) -> tuple[int, ...]:
        return tuple(_stored(graph, graph[i]) if i in casts else i for i in inputs)

    nodes = []
    for node in graph.nodes:
        is_view = node.op is Op.VIEW and node.inputs[0] in casts
        dtype = graph[stored(node.inputs)[0]].dtype if is_view else node.dtype
        nodes.append(replace(node, inputs=stored(node.inputs), dtype=dtype))
    return prune(replace(graph, nodes=tuple(nodes)))
