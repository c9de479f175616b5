"""Reductions over an axis whose elements lie apart, while the results lie side by side.

Law: nothing is turned for them. Elements of the reduced axis lie one behind the other in a
partition, and are walked there with a stride; or each lies in a partition, sums are made in all of
them, and the partitions are joined at the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from nki_agent.builtin.align import Walk, group_size, group_stride, merge_axes
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.plan import FoldPlan, Stored
from nki_agent.builtin.stages import Group
from nki_agent.builtin.tile_steps import Access
from nki_agent.builtin.titles import describe
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

TILE_ELEMS = 4096
"""Elements of one partition that are loaded at a time."""
RUN_ELEMS = 128
"""A run of fewer elements costs the DMA engines more than what it brings."""


def plan_fold(
    captured: Captured, group: Group, *, buffers: Mapping[int, Stored], chip: ChipSpec
) -> FoldPlan:
    """Plan one such reduction."""
    node = captured.graph[group.nodes[0]]
    rank = len(node.shape)
    order = list(range(rank))
    kept = [a for a in order if a not in node.axes]
    sizes, walks = [], []
    stored = buffers[node.id]
    for index, graph in enumerate(captured.graphs):
        view = graph[graph[node.id].inputs[0]]
        sizes.append(dict(zip(order, view.shape, strict=True)))
        strides, offset = stored.layout(graph[node.id].shape, index)
        source = Walk(dict(zip(order, view.strides, strict=True)), view.offset)
        walks.append([source, Walk(dict(zip(order, strides, strict=True)), offset)])
    gone = tuple(node.axes)
    groups = merge_axes(kept, sizes, walks, fences=frozenset())
    *batch, cols = groups
    accesses = []
    names = (buffers[captured.graph.base(node.inputs[0]).id].name, stored.name)
    for side, axes in enumerate(((*batch, gone, cols), (*batch, cols))):
        own = [w[side] for w in walks]
        accesses.append(
            Access(
                tensor=names[side],
                strides=tuple(group_stride(g, own, sizes) for g in axes),
                offset=tuple(w.offset for w in own),
            )
        )
    m, n = group_size(gone, sizes), group_size(cols, sizes)
    loops = tuple(group_size(g, sizes) for g in batch)
    partitions = _choose(loops[-1] if loops else (1,), m, n, chip)
    run = max(n) if partitions != "runs" else max(1, max(n) // chip.partitions)
    depth = max(m) if partitions != "depth" else math.ceil(max(m) / chip.partitions)
    bank = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    row_block = max(1, min(depth, TILE_ELEMS // min(run, bank)))
    col_block = max(1, min(run, bank))
    dtype = buffers[captured.graph.base(node.inputs[0]).id].dtype
    # Longer rows come in the order in which a stage before may have stored them.
    is_short = max(n) * dtype.itemsize < chip.dma_efficient_descriptor_bytes
    follows = accesses[0].strides[-2] == n and col_block >= max(n)
    return FoldPlan(
        title=describe(captured, group.nodes),
        function=node.function,
        batch=loops,
        source=accesses[0],
        target=accesses[1],
        dtype=dtype,
        out_dtype=stored.dtype,
        m=m,
        n=n,
        partitions=partitions,
        row_block=row_block,
        col_block=col_block,
        takes_neighbours=is_short and follows,
    )


def _choose(batch: tuple[int, ...], m: tuple[int, ...], n: tuple[int, ...], chip: ChipSpec) -> str:
    """What lies on the partitions: what fills them with long runs."""
    if max(n) >= chip.partitions * RUN_ELEMS:
        return "runs"
    if max(batch) >= chip.partitions:
        return "batch"
    return "depth" if max(m) >= max(batch) else "batch"
