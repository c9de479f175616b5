"""The tile plan of a task on a chip: what lies on the partitions, how often, and what fits.

Law: every figure is computed from the task's shapes and `chip`; a plan is short whatever the number
of tensors, since equal shapes share a line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType
from nki_agent.task.task import Output, ShapeSet, Task, TensorArgument, TensorKind

LIVE_TILES = 4
"""Row tiles that a kernel needs at once: what it reads, two in between, what it writes."""
FIT_SHARE = 0.5
"""Weights that stay in SBUF leave as much for everything else."""
NAMES_MAX = 6
"""Names in one line; more are counted."""
MATRICES_MAX = 6
MATRIX_RANK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A tensor as rows on the partitions."""

    rows: int
    free: int
    partitions: int

    @property
    def tiles(self) -> int:
        """Partition tiles."""
        return math.ceil(self.rows / self.partitions)

    @property
    def tail(self) -> int:
        """Rows of the last tile; 0 where it is whole."""
        return self.rows % self.partitions if self.rows > self.partitions else 0


def fold(shape: tuple[int, ...], *, partitions: int) -> Fold:
    """All leading axes as rows, the last one as the free axis."""
    return Fold(rows=math.prod(shape[:-1]), free=shape[-1], partitions=partitions)


def write_fold(shape: tuple[int, ...], *, partitions: int) -> str:
    """How a tensor of this shape lies on the partitions.

    >>> write_fold((300, 64), partitions=128)
    'rows on the partitions: 3 tiles of [128, 64], the last [44, 64]'
    >>> write_fold((2, 32, 8), partitions=128)
    'fold to [64, 8] with `.reshape((64, 8))`; rows on the partitions: one tile of [64, 8]'
    >>> write_fold((1024,), partitions=128)
    'view it as [128, 8] with `.reshape((128, 8))` for elementwise work, or as a row [1, 1024]'
    """
    if len(shape) == 1:
        return _fold_vector(shape[0], partitions)
    folded = fold(shape, partitions=partitions)
    rows, free = folded.rows, folded.free
    head = ""
    if len(shape) > MATRIX_RANK:
        head = f"fold to [{rows}, {free}] with `.reshape(({rows}, {free}))`; "
    if rows <= partitions:
        return f"{head}rows on the partitions: one tile of [{rows}, {free}]"
    last = f", the last [{folded.tail}, {free}]" if folded.tail else ""
    return f"{head}rows on the partitions: {folded.tiles} tiles of [{partitions}, {free}]{last}"


def write_plan(task: Task, chip: ChipSpec) -> Iterator[str]:
    """Lines on every tensor at the dev shapes, on weights, on matmuls, and on the perf shapes."""
    for group in _group(task.dev):
        yield _write_group(group, chip)
    yield from _write_weights(task.dev, chip)
    if task.work.matmul_flops:
        yield from _write_matrices(task.dev, chip)
    if task.perf is not task.dev:
        yield from _write_perf(task.perf, chip)


def _fold_vector(size: int, partitions: int) -> str:
    rows = max(p for p in range(1, partitions + 1) if size % p == 0)
    row = f"a row [1, {size}]"
    if rows == 1:
        return f"view it as {row} with `.reshape((1, {size}))`"
    call = f"`.reshape(({rows}, {size // rows}))`"
    return f"view it as [{rows}, {size // rows}] with {call} for elementwise work, or as {row}"


Tensor = TensorArgument | Output


def _tensors(shapes: ShapeSet) -> list[Tensor]:
    return [*shapes.tensors, *shapes.outputs]


def _group(shapes: ShapeSet) -> list[list[Tensor]]:
    """Tensors of one shape and dtype together, in the order in which they come."""
    groups: dict[tuple[tuple[int, ...], DType], list[Tensor]] = {}
    for tensor in _tensors(shapes):
        groups.setdefault((tensor.shape, tensor.dtype), []).append(tensor)
    return list(groups.values())


def _write_group(group: Sequence[Tensor], chip: ChipSpec) -> str:
    first = group[0]
    shape = f"[{', '.join(map(str, first.shape))}]"
    return (
        f"- {_name(group)}: rank {len(first.shape)}, shape {shape}, {first.dtype.value};"
        f" {write_fold(first.shape, partitions=chip.partitions)}; {_write_row(first, chip)}"
    )


def _name(group: Sequence[Tensor]) -> str:
    shown = ", ".join(f"`{tensor.name}`" for tensor in group[:NAMES_MAX])
    return shown + (f" and {len(group) - NAMES_MAX} more" if len(group) > NAMES_MAX else "")


def _write_row(tensor: Tensor, chip: ChipSpec) -> str:
    """What a row takes of a partition."""
    row_bytes = tensor.shape[-1] * max(tensor.dtype.itemsize, 1)
    room = chip.sbuf_usable_partition_bytes
    if LIVE_TILES * row_bytes <= room:
        return f"a row takes {row_bytes} bytes of a partition's {room}"
    columns = room // (LIVE_TILES * DType.FLOAT32.itemsize)
    return f"a row takes {row_bytes} bytes of {room}: blocks of at most {columns} columns"


def _write_weights(shapes: ShapeSet, chip: ChipSpec) -> Iterator[str]:
    weights = [t for t in shapes.tensors if t.kind is not TensorKind.INPUT]
    if not weights:
        return
    total = sum(t.num_bytes for t in weights)
    share = math.ceil(total / chip.partitions)
    room = chip.sbuf_usable_partition_bytes
    if share <= FIT_SHARE * room:
        word = "fit: load each once, before the loop over rows"
    else:
        word = "don't fit beside other tiles: stream them in blocks"
    yield (
        f"- weights: {total} bytes, {share} bytes of each partition if spread over all"
        f" {chip.partitions}; they {word}"
    )


def _write_matrices(shapes: ShapeSet, chip: ChipSpec) -> Iterator[str]:
    """What a matmul makes of each matrix that is more than one tile, by the axis it sums over."""
    matrices = [t for t in shapes.tensors if len(t.shape) == MATRIX_RANK][:MATRICES_MAX]
    bank = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    yield (
        f"- a matmul sums over the partition axis of both operands: K tiles of {chip.partitions},"
        f" M blocks of {chip.matmul_stationary_free_max}, N blocks of {bank}; turn a matrix that"
        " has K on its last axis with `nisa.nc_transpose` first"
    )
    for tensor in matrices:
        rows, columns = tensor.shape
        if max(rows, columns) <= chip.partitions:
            continue  # one K tile whichever axis is summed over
        yield (
            f"- `{tensor.name}` in a matmul: summed over axis 0, {_tiles(rows, chip.partitions)}"
            f" of K; over axis 1, turned, {_tiles(columns, chip.partitions)} of K"
        )


def _tiles(size: int, limit: int) -> str:
    count = math.ceil(size / limit)
    tail = size % limit
    return f"{count} tile{'s' if count > 1 else ''}" + (f" (last {tail})" if tail else "")


def _write_perf(shapes: ShapeSet, chip: ChipSpec) -> Iterator[str]:
    """Timed shapes: the largest tensors only."""
    largest = max(_tensors(shapes), key=lambda tensor: tensor.num_elems)
    if len(largest.shape) >= MATRIX_RANK:
        folded = fold(largest.shape, partitions=chip.partitions)
        tiles = f"{_tiles(folded.rows, chip.partitions)} of rows"
    else:
        tiles = write_fold(largest.shape, partitions=chip.partitions)
    yield f"- where it is timed, `{largest.name}` has {tiles}; {_write_row(largest, chip)}"
    yield from (
        line.replace("- weights:", "- weights there:") for line in _write_weights(shapes, chip)
    )
