"""Plans reductions along an axis that lies far apart in memory, without turning the tensor.

Law: what is reduced is read once, row by row as it lies. Where enough rows remain they lie on the
partitions, and one slice after the other is joined to what is there; else the reduced axis does.
"""

from __future__ import annotations

from collections.abc import Mapping

from nki_agent.builtin.align import Walk, group_size, group_stride, merge_axes
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import contiguous_strides
from nki_agent.builtin.plan import FoldPlan, Stored
from nki_agent.builtin.stages import Group
from nki_agent.builtin.tile_steps import Access

WORDS = {"add": "sum", "maximum": "maximum", "minimum": "minimum"}
LANES_MIN = 32
"""Rows that must remain on the partitions, else the reduced axis is put there."""


def plan_fold(captured: Captured, group: Group, *, buffers: Mapping[int, Stored]) -> FoldPlan:
    """Plan one fold."""
    graph = captured.graph
    node = graph[group.nodes[0]]
    view = graph[node.inputs[0]]
    rank, count = len(view.shape), len(node.axes)
    minor = max(d for d in range(rank - count) if view.strides[d] == 1 and view.shape[d] > 1) - rank
    order = list(range(-rank, 0))
    sizes, walks = [], []
    for each in captured.graphs:
        source = each[each[node.id].inputs[0]]
        kept = contiguous_strides(source.shape[: rank - count])
        sizes.append(dict(zip(order, source.shape, strict=True)))
        walks.append(
            [
                Walk(dict(zip(order, source.strides, strict=True)), source.offset),
                Walk(dict(zip(order, (*kept, *(0,) * count), strict=True)), 0),
            ]
        )
    groups = merge_axes(order, sizes, walks, fences=frozenset({minor, minor + 1, -count}))
    cols, far = next(g for g in groups if minor in g), groups[-1]
    loops = [g for g in groups if g not in (cols, far)]
    rows = max(loops, key=lambda g: max(group_size(g, sizes)), default=())
    by_rows = bool(loops) and max(group_size(rows, sizes)) >= LANES_MIN
    if by_rows:
        loops = [g for g in loops if g is not rows]
    axes = [*loops, far, rows, cols] if by_rows else [*loops, far, cols]
    names = buffers[graph.base(view.id).id].name, buffers[node.id].name
    sides = [
        Access(
            tensor=name,
            strides=tuple(group_stride(g, [w[side] for w in walks], sizes) for g in axes),
            offset=tuple(w[side].offset for w in walks),
        )
        for side, name in enumerate(names)
    ]
    return FoldPlan(
        title=WORDS[node.function],
        function=node.function,
        batch=tuple(group_size(g, sizes) for g in loops),
        far=group_size(far, sizes),
        rows=group_size(rows, sizes) if by_rows else None,
        cols=group_size(cols, sizes),
        source=sides[0],
        target=sides[1],
        dtype=buffers[graph.base(view.id).id].dtype,
        out_dtype=buffers[node.id].dtype,
    )
