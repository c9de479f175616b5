"""What a stage over rows adds up over a loop of its own: which axes, and where the total goes.

Law: the axes are those of the reduction's operand, seen at any shape set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nki_agent.builtin.align import Alignment, Axes, Walk, inner_axes
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.plan import Stored


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
