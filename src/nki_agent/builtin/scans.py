"""Running sums, running products and linear recurrences along the last axis.

Law: one instruction of the Vector Engine runs along the columns of a tile of rows, and its state
stays in float32; so whole rows must fit SBUF. A scan from the end is one whose operands and result
are read and written backwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_agent.builtin.graph import GraphBuilder, Node, Op, UnsupportedError
from nki_agent.builtin.moves import cut
from nki_agent.builtin.pending import Place, Tiles
from nki_agent.builtin.rules import Ref, Rules
from nki_agent.builtin.tile_steps import Fill, Kind, Number, Scan, Tile

BACKWARD = "_backward"
"""Ends the function of a scan that runs from the last column to the first."""
BEFORE = "_before"
"""Ends the function of a scan that gives each column the state that it finds; 0 to the first."""


def add_scan(builder: GraphBuilder, function: str, sources: Sequence[int]) -> int:
    """A scan along the last axis of sources of one shape."""
    node = builder.nodes[sources[-1]]
    return builder.add(
        op=Op.SCAN, shape=node.shape, dtype=node.dtype, inputs=tuple(sources), function=function
    )


def scan_rule(function: str, rules: Rules, x: Ref, dim: int, **_: object) -> Ref:
    """A running sum or product along `dim`."""
    builder = rules.builder
    node = rules.node(x)
    rank = len(node.shape)
    axis = dim % rank
    order = [*(a for a in range(rank) if a != axis), axis]
    copied = node.op is Op.UNARY and node.function == "copy"
    flipped = builder.permute(node.inputs[0] if copied else x.id, order)
    if any(stride < 0 for stride in builder.nodes[flipped].strides[-1:]):
        straight = _turned_round(rules, Ref(flipped))
        made = _turned_round(rules, Ref(add_scan(builder, function + BACKWARD, [straight.id]))).id
    else:
        source = builder.permute(x.id, order)
        made = add_scan(builder, function, [source])
    return Ref(builder.permute(made, [order.index(a) for a in range(rank)]))


def _turned_round(rules: Rules, x: Ref) -> Ref:
    """A view of the last axis from its end."""
    axis = len(rules.node(x).shape) - 1
    return cut(rules, x, axis, rules.node(x).shape[axis] - 1, -1, -1)


def lower_scan(lowering: Tiles, node: Node) -> Tile:
    """One scan instruction."""
    place = lowering.places[node.id]
    if lowering.is_packed or place.kind is not Kind.FULL:
        raise UnsupportedError(node.origin, "a scan of a value that is the same in every row")
    function = node.function.removesuffix(BACKWARD).removesuffix(BEFORE)
    tiles = [_tile_of(lowering, source) for source in node.inputs]
    if function != "linear":
        tiles.append(_column(lowering, lowering.number(0.0)))
    dst = lowering.tile(_NAMES[function], place)
    step = Scan(
        dst=dst,
        first=tiles[0],
        second=tiles[1],
        op="add" if function == "add" else "multiply",
        initial=1.0 if function == "multiply" else 0.0,
        is_backward=node.function.endswith(BACKWARD),
        is_before=node.function.endswith(BEFORE),
    )
    lowering.emit(place.level, step)
    return dst


def _tile_of(lowering: Tiles, node_id: int) -> Tile:
    value = lowering.value(node_id)
    return _column(lowering, value) if isinstance(value, tuple) else lowering.settle(node_id)


def _column(lowering: Tiles, number: Number) -> Tile:
    """A column of one number, made once."""
    for step in lowering.levels[0]:
        if isinstance(step, Fill) and step.value == number and step.dst.kind is Kind.ONE:
            return step.dst
    name = {0.0: "zeros", 1.0: "ones"}.get(number[0], "constant")
    tile = lowering.tile(name, Place(Kind.ONE, 0))
    lowering.emit(0, Fill(dst=tile, value=number))
    return tile


_NAMES = {"add": "running_sum", "multiply": "running_product", "linear": "states"}
