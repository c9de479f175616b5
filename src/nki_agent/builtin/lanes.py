"""Reductions of long vectors: each partition reduces its share, then the shares are reduced.

Law: the shares of a vector lie flat over the partitions, so that no partition holds the whole; the
first stage leaves one number for each partition, in float32: a conversion of what all tiles add to
would come before the last of them.
"""

from __future__ import annotations

from nki_agent.builtin.graph import ELEMENTWISE, GraphBuilder, Node, Op
from nki_agent.builtin.pending import Place, Tiles
from nki_agent.builtin.tile_steps import Accumulate, Fill, Kind, Reduce, Tile
from nki_agent.isa.dtype import DType

NUM_LANES = 128
"""Partitions of every chip that a kernel is written for."""
IDENTITY = {"add": 0.0, "multiply": 1.0, "maximum": -3.4028235e38, "minimum": 3.4028235e38}
"""What changes no other number."""


def reduce_vector(builder: GraphBuilder, function: str, source: int, *, keepdims: bool) -> int:
    """All elements of a vector."""
    shares = builder.add(
        op=Op.LANES,
        shape=(NUM_LANES,),
        dtype=DType.FLOAT32,
        inputs=(source,),
        function=function,
    )
    return builder.reduce(function, shares, [0], keepdims=keepdims)


def is_long(builder: GraphBuilder, source: int) -> bool:
    """Whether a vector is made of arguments alone, which may have any length."""
    node = builder.nodes[source]
    if len(node.shape) != 1:
        return False
    return _from_arguments(builder, builder.nodes[builder.base_of(source)])


def _from_arguments(builder: GraphBuilder, node: Node) -> bool:
    if node.op in (Op.INPUT, Op.CONST):
        return len(node.shape) <= 1
    inputs = [builder.nodes[builder.base_of(i)] for i in node.inputs]
    return node.op in ELEMENTWISE and all(_from_arguments(builder, i) for i in inputs)


def lower_lanes(lowering: Tiles, node: Node, level: int) -> Tile:
    """Each tile's share is added to what its partitions have so far."""
    lanes = lowering.tile("shares", Place(Kind.ONE, 0))
    start = lowering.number(IDENTITY[node.function])
    lowering.emit(0, Fill(dst=lanes, value=start))
    data = lowering.settle(node.inputs[0])
    share = lowering.tile("share", Place(Kind.ROW, level))
    lowering.emit(level, Reduce(dst=share, op=node.function, data=data))
    lowering.emit(level, Accumulate(dst=lanes, src=share, op=node.function))
    return lanes
