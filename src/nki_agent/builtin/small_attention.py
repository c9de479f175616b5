"""Plans attention of few queries and keys in many batches: windows of an image, short sequences.

Law: many batches lie behind each other in each partition, so that transfers and instructions serve
all of them; what has more keys than a part of a PSUM bank takes is planned batch by batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nki_agent.builtin.align import group_size
from nki_agent.builtin.attention import AttentionPlanner
from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.print_products import swap_axes
from nki_agent.builtin.products import product_dtype
from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.small_attention_plan import SmallAttentionPlan
from nki_agent.builtin.tile_steps import (
    Access,
    AffineSelect,
    Cut,
    Iota,
    Kind,
    Load,
    Size,
    Step,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.isa.dtype import DType

ROWS_MAX = 64
"""More queries or keys, where there are most batches, fill half the partitions."""
BATCHES_MIN = 16
"""Fewer batches are as well made one by one."""


class SmallAttentionPlanner(AttentionPlanner):
    """Plans one attention, if its batches are small and many."""

    def plan_small(self) -> SmallAttentionPlan | None:
        """The plan; None where batches are large, few, or have what no tile of several can take."""
        q_id, k_id = self.node.inputs
        v_id = self.out.inputs[1]
        if len(self.graph[self.parts.softmax].inputs) > 1 or not self._is_small(q_id, k_id, v_id):
            return None
        space = self._space(q_id, k_id, v_id)
        sizes = [max(group_size(g, space.sizes)) for g in space.batch]
        if not sizes or max(sizes) < BATCHES_MIN:
            return None
        axis = sizes.index(max(sizes))
        operands = [self._operand(space, i) for i in (q_id, k_id, v_id)] + [self._result(space)]
        if not all(any(access.strides[axis]) for access in operands):
            return None
        try:
            levels, product, scores = self._between(space)
        except UnsupportedError:
            return None
        split = _split(levels, axis)
        if split is None:
            return None
        shared, steps = split
        graphs = self.captured.graphs
        q, k, v, out = (_moved(access, axis) for access in operands)
        batch = [group_size(g, space.sizes) for g in space.batch]
        return SmallAttentionPlan(
            title="attention",
            outer=tuple(size for i, size in enumerate(batch) if i != axis),
            batches=batch[axis],
            q=q,
            k=k,
            v=v,
            out=out,
            dtype=product_dtype(self.graph, self.node),
            value_dtype=product_dtype(self.graph, self.out),
            out_dtype=self.buffers[self.out.id].dtype,
            queries=tuple(g[q_id].shape[-2] for g in graphs),
            keys=tuple(g[k_id].shape[-1] for g in graphs),
            depth=tuple(g[q_id].shape[-1] for g in graphs),
            value_depth=tuple(g[v_id].shape[-1] for g in graphs),
            width=self._width(q, k, v, batch[:axis] + batch[axis + 1 :]),
            product=product,
            scores=scores,
            shared=tuple(shared),
            steps=tuple(steps),
        )

    def _is_small(self, q_id: int, k_id: int, v_id: int) -> bool:
        """Whether several batches share a bank where there are most, and one does everywhere."""
        bank = self.chip.psum_bank_bytes // DType.FLOAT32.itemsize
        sizes = []
        for graph in self.captured.graphs:
            (queries, depth), keys = graph[q_id].shape[-2:], graph[k_id].shape[-1]
            if max(depth, graph[v_id].shape[-1]) > ROWS_MAX or 2 * max(queries, keys) > bank:
                return False
            sizes.append((graph[self.out.id].num_elems // queries, max(queries, keys)))
        return max(sizes)[1] <= ROWS_MAX

    def _width(self, q: Access, k: Access, v: Access, outer: Sequence[Size]) -> Size | None:
        """The elements of a row, if one row of one tensor holds all three of all outer loops."""
        k = swap_axes(k)
        width = q.strides[-2]
        if len(outer) != 1 or len({q.tensor, k.tensor, v.tensor}) > 1:
            return None
        for access in (q, k, v):
            if access.strides[1:-1] != (q.strides[1], width) or set(access.strides[-1]) != {1}:
                return None
            for index, graph in enumerate(self.captured.graphs):
                depth = graph[self.out.inputs[1]].shape[-1]
                last = (outer[0][index] - 1) * access.strides[0][index]
                if access.offset[index] + last + depth > width[index]:
                    return None
        depths = {
            g[self.node.inputs[0]].shape[-1] - g[self.out.id].shape[-1]
            for g in self.captured.graphs
        }
        return width if depths == {0} else None


def _moved(access: Access, axis: int) -> Access:
    """The axis of the batches of a tile behind the other loops."""
    *batch, rows, cols = access.strides
    inner = batch.pop(axis)
    return replace(access, strides=(*batch, inner, rows, cols))


def _split(levels: Sequence[Sequence[Step]], axis: int) -> tuple[list[Load], list[Step]] | None:
    """Operands that all batches of a tile share, and the other steps; None if there is another.

    What is shared has a row for each query, but is one for all batches: a vector, to the printer.
    """
    *outside, inside = levels
    if any(outside):
        return None
    shared: list[Load] = []
    steps: list[Step] = []
    new: dict[Tile, Tile] = {}
    for step in inside:
        if isinstance(step, Load):
            if step.dst.kind is not Kind.FULL or any(step.access.strides[axis]):
                return None
            tile = replace(step.dst, kind=Kind.VECTOR, level=0)
            new[step.dst] = tile
            shared.append(Load(dst=tile, access=_moved(step.access, axis)))
        elif isinstance(step, Iota | AffineSelect | Cut):
            return None
        else:
            steps.append(step)
    tiles = {t for s in steps for t in (*step_reads(s), *step_writes(s))}
    if any(tile.kind is not Kind.FULL for tile in tiles):
        return None
    return shared, [with_tiles(step, new) for step in steps]
