"""Plans copies that move elements in short runs: long runs are loaded, and put in order in SBUF.

Law: a transfer takes as long for a few bytes as for hundreds, an engine does not. Each partition
takes all of the axes that are needed for long runs on both sides; where they do not fit, or runs
are long as they are, the copy is a pass over rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nki_agent.builtin.align import Walk, group_size, group_stride, merge_axes
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import Node, Op, contiguous_strides
from nki_agent.builtin.plan import Stored
from nki_agent.builtin.reorder_plan import ReorderPlan, Run
from nki_agent.builtin.stages import Group
from nki_agent.builtin.titles import describe
from nki_agent.chip.spec import ChipSpec

INNER_BYTES = 40_000
"""Bytes of a tile in one partition: two tiles in each order leave some room."""
LOCALS = frozenset(
    {"found", "tile", "tiles", "ordered", "index", "first", "count", "lanes", "rows", "o"}
    | {"target_rows", "r0", "o0"}
)
"""Names in the text of such a stage."""
GAIN_MIN = 4
"""How much longer runs must become."""
TURNED_MAX = 4
"""Elements side by side in the target, one of each row of the source, up to which an engine moves
them in order faster than the Tensor Engine turns them."""
ROWS_MIN = 16
"""Partitions of a tile at the largest sizes at least: fewer leave transfers to few engines."""


def plan_reorder(
    captured: Captured, group: Group, *, buffers: Mapping[int, Stored], chip: ChipSpec
) -> ReorderPlan | None:
    """Plan one copy; None if it is better as a pass over rows."""
    node = captured.graph[group.nodes[0]]
    if len(group.nodes) > 1 or group.loop or not _is_copy(captured, node):
        return None
    view = captured.graph[node.inputs[0]]
    base = captured.graph.base(view.id)
    if view.op is not Op.VIEW or base.id not in buffers or not base.dtype.is_float:
        return None  # an engine copies whole numbers only as far as float32 holds them
    source, target = buffers[base.id], buffers[node.id]
    if {source.name, target.name} & LOCALS:
        return None  # a name of its own would hide the tensor
    if target.strides is not None or source.strides is not None or source.dtype != target.dtype:
        return None
    runs = _runs(captured, node.inputs[0])
    if any(0 in run.stride for run in runs):
        return None
    inner = _inner(runs, source.dtype.itemsize, chip)
    if inner is None:
        return None
    before, rows = runs[: inner - 1], runs[inner - 1]
    return ReorderPlan(
        title=describe(captured, group.nodes),
        source=source.name,
        offset=tuple(g[view.id].offset for g in captured.graphs),
        target=target.name,
        dtype=source.dtype,
        loops=tuple(before[:-1]),
        outer=before[-1] if before else None,
        rows=rows,
        inner=tuple(runs[inner:]),
    )


def _is_copy(captured: Captured, node: Node) -> bool:
    """Whether it only moves elements; turning a few leaves the Tensor Engine mostly idle."""
    if node.op is Op.TRANSPOSE:
        return max(graph[node.id].shape[-1] for graph in captured.graphs) <= TURNED_MAX
    return node.op is Op.UNARY and node.function == "copy"


def _runs(captured: Captured, view: int) -> list[Run]:
    """The axes of the copy that do not go on in both tensors, in the order of the target."""
    order = list(range(-len(captured.graph[view].shape), 0))
    sizes, walks = [], []
    for graph in captured.graphs:
        node = graph[view]
        sizes.append(dict(zip(order, node.shape, strict=True)))
        own = Walk(dict(zip(order, node.strides, strict=True)), node.offset)
        row_by_row = contiguous_strides(node.shape)
        walks.append([own, Walk(dict(zip(order, row_by_row, strict=True)), 0)])
    kept = [axis for axis in order if any(size[axis] != 1 for size in sizes)]
    groups = merge_axes(kept, sizes, walks, fences=frozenset())
    return [
        Run(size=group_size(g, sizes), stride=group_stride(g, [w[0] for w in walks], sizes))
        for g in groups
    ]


def _inner(runs: Sequence[Run], itemsize: int, chip: ChipSpec) -> int | None:
    """From which axis on all are in each partition; None where that gains too little."""
    sizes, strides = ([max(s) for s in part] for part in _columns(runs))
    by_source = sorted(range(len(runs)), key=lambda axis: strides[axis])
    if strides[by_source[0]] != 1:
        return None
    common = sizes[-1] * itemsize if strides[-1] == 1 else itemsize
    wanted = chip.dma_efficient_descriptor_bytes
    while wanted >= GAIN_MIN * common:
        start = min(
            _reach(sizes, list(reversed(range(len(runs)))), itemsize, wanted),
            _reach(sizes, by_source, itemsize, wanted, strides),
        )
        held = itemsize
        for size in sizes[start:]:
            held *= size
        is_short = len(runs) - start < chip.instruction_free_dims_max + 1
        if start and held <= INNER_BYTES and is_short and _lanes(sizes, start) >= ROWS_MIN:
            return start
        wanted //= 2
    return None


def _columns(runs: Sequence[Run]) -> Iterator[list[tuple[int, ...]]]:
    yield [run.size for run in runs]
    yield [run.stride for run in runs]


def _reach(
    sizes: Sequence[int],
    order: Sequence[int],
    itemsize: int,
    wanted: int,
    strides: Sequence[int] | None = None,
) -> int:
    """The outermost axis of a run of at least so many bytes; with `strides`, as far as it goes."""
    run, first = 1, len(sizes)
    for axis in order:
        if run * itemsize >= wanted or (strides is not None and strides[axis] != run):
            break
        run *= sizes[axis]
        first = min(first, axis)
    return first


def _lanes(sizes: Sequence[int], start: int) -> int:
    """Partitions that are taken where all axes from `start` on are in each."""
    return sizes[start - 1] * (sizes[start - 2] if start > 1 else 1)
