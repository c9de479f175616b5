"""What a stage over rows adds up over a loop of its own: which axes, and where the total goes.

Law: the axes are those of the reduction's operand, seen at any shape set. The total starts at what
changes nothing, so that every turn of the loop does the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.align import Alignment, Axes, Walk, inner_axes
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.pending import Place, Tiles
from nki_agent.builtin.plan import Stored
from nki_agent.builtin.tile_steps import AddUp, Combine, Fill, Kind, Tile

TOTAL_COLS = 2048
"""Columns of a total that half of PSUM holds."""
NEUTRAL = {"add": 0.0, "maximum": float("-inf"), "minimum": float("inf")}
"""What each function of a total starts from."""


def add_up(lowering: Tiles, source: Tile, function: str, cols: int) -> Tile:
    """The total of each row tile, added to at the end of the innermost loop.

    Sums that PSUM holds are the Tensor Engine's; another total is filled in its loop first.
    """
    level = len(lowering.levels) - 1
    place = Place(Kind.FULL, level - 1)
    tile = replace(lowering.tile("total", place), in_psum=cols <= TOTAL_COLS)
    if is_by_products(source, function, cols):
        lowering.emit(level, AddUp(dst=tile, src=source))
        return tile
    lowering.emit(place.level, Fill(dst=tile, value=lowering.number(NEUTRAL[function])))
    lowering.emit(level, Combine(dst=tile, first=tile, second=source, op=function))
    return tile


def is_by_products(source: Tile, function: str, cols: int) -> bool:
    """Whether a total is a sum of products with ones and zeros, which costs no engine's time."""
    return function == "add" and cols <= TOTAL_COLS and source.kind is Kind.FULL


def _axes(captured: Captured, alignments: Sequence[Alignment], fold: int) -> Axes:
    """The axis of each dimension of what is added up."""
    known = []
    for graph, alignment in zip(captured.graphs, alignments, strict=True):
        known.append(inner_axes(graph, graph[fold].inputs[0], alignment) or ())
    seen = zip(*known, strict=True)
    return tuple(next((a for a in dim if a is not None), None) for dim in seen)


def added_axes(
    captured: Captured, alignments: Sequence[Alignment], fold: int | None
) -> frozenset[int]:
    """The axes over which the total is made."""
    if fold is None:
        return frozenset()
    axes = _axes(captured, alignments, fold)
    return frozenset(a for dim in captured.graph[fold].axes if (a := axes[dim]) is not None)


def total_walks(
    captured: Captured, alignments: Sequence[Alignment], fold: int, buffers: Mapping[int, Stored]
) -> list[Walk]:
    """How the total runs along the axes that stay."""
    axes = _axes(captured, alignments, fold)
    found = []
    for index, graph in enumerate(captured.graphs):
        node = graph[fold]
        strides, offset = buffers[fold].layout(node.shape, index)
        walk = {
            axis: stride
            for dim, (axis, stride) in enumerate(zip(axes, strides, strict=True))
            if axis is not None and dim not in node.axes
        }
        found.append(Walk(walk, offset))
    return found
