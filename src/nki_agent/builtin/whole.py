"""Which values are whole numbers whatever the inputs are, so that a cast to integers only stores.

Law: a cast to integers cuts off what is behind the point, as PyTorch does; the chip rounds. The
two agree on whole numbers, so it is worth knowing which values are such.
"""

from __future__ import annotations

from nki_agent.builtin.graph import BITS, COMPARISONS, Graph, Node, Op

ROUNDING = frozenset({"round", "floor", "ceil", "trunc", "sign"})
KEEPING = frozenset({"copy", "negative", "abs", "square", "relu"})
CLOSED = frozenset({"add", "subtract", "multiply", "maximum", "minimum"})
LOGICAL = frozenset({"logical_and", "logical_or", "logical_xor"})


def is_whole(graph: Graph, node_id: int) -> bool:
    """Whether every element is a whole number."""
    node = graph[node_id]
    match node.op:
        case Op.CONST:
            return node.value.is_integer()
        case Op.UNARY if node.function in ROUNDING:
            return True
        case Op.UNARY if node.function not in KEEPING:
            return False
        case Op.BINARY:
            return _is_whole_pair(graph, node)
        case Op.WHERE:
            return all(is_whole(graph, i) for i in node.inputs[1:])
        case Op.UNARY | Op.VIEW | Op.REDUCE | Op.FOLD | Op.TRANSPOSE | Op.SCAN | Op.LANES:
            return node.dtype.is_integer or all(is_whole(graph, i) for i in node.inputs)
        case _:
            return node.dtype.is_integer


def _is_whole_pair(graph: Graph, node: Node) -> bool:
    if node.function in COMPARISONS | LOGICAL | BITS:
        return True
    return node.function in CLOSED and all(is_whole(graph, i) for i in node.inputs)
