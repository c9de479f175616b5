"""Values that are copied only to lie in another order: they are written in that order at once.

Law: the copy is a stage of its own, nobody but it reads the value, and every element of the value
has its place in the copy; so the stage that makes the value writes the copy instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import Graph, Node, Op, Shape, contiguous_strides
from nki_agent.builtin.stages import Group, StageKind

WRITERS = (StageKind.ROWS, StageKind.MATMUL, StageKind.ATTENTION, StageKind.CHAIN)
"""Stages that write any strides."""


def find_relayouts(captured: Captured, groups: Sequence[Group]) -> dict[int, int]:
    """Copies that need no stage, each with the node whose stage writes it."""
    kinds = {node: group.kind for group in groups for node in group.nodes if not group.loop}
    found = {}
    for group in groups:
        if group.kind is not StageKind.ROWS or len(group.nodes) != 1 or group.loop:
            continue
        copy = group.nodes[0]
        made = {_made_for(graph, copy) for graph in captured.graphs}
        maker = made.pop()
        if not made and maker is not None and kinds.get(maker) in WRITERS:
            found[copy] = maker
    return found


def _made_for(graph: Graph, copy_id: int) -> int | None:
    """The node that a copy has all elements of, if nothing else reads it."""
    copy = graph[copy_id]
    if copy.op is not Op.UNARY or copy.function != "copy":
        return None
    view = graph[copy.inputs[0]]
    base = graph.base(view.id)
    users = graph.users()
    if view.op is not Op.VIEW or view.is_fence or base.dtype is not copy.dtype:
        return None
    if users[base.id] != [view.id] or users[view.id] != [copy.id]:
        return None
    return base.id if strides_in_copy(base, view) is not None else None


def strides_in_copy(base: Node, view: Node) -> Shape | None:
    """The strides of a value's axes where a view of it lies row by row.

    None where the view is no reordering of its axes, or does not keep its runs together.
    """
    if view.offset or view.num_elems != base.num_elems:
        return None
    walks = zip(view.strides, view.shape, contiguous_strides(view.shape), strict=True)
    axes = [walk for walk in walks if walk[1] != 1]
    found = []
    for size, step in zip(base.shape, contiguous_strides(base.shape), strict=True):
        steps = [_inner_step(size, step, axis) for axis in axes] if size != 1 else [0]
        if not any(steps) and size != 1:
            return None
        found.append(max(steps))
    last = [new for new, size in zip(found, base.shape, strict=True) if size != 1][-1:]
    return tuple(found) if last == [1] else None


def _inner_step(size: int, step: int, axis: tuple[int, int, int]) -> int:
    """The new stride of an axis that lies within an axis of the view; 0 if it does not."""
    stride, length, new = axis
    times, rest = divmod(step, stride)
    return new * times if not rest and times and times * size <= length else 0
