"""NK208: some elements of a result, or of an argument that is an output, are never written.

Law: the count is exact; the rows and columns named are the smallest box that holds all missing
elements. What only a run-time offset or the trip count of a loop decides counts as written: the
simulator's result shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Stack
from nki_agent.memory.columns import NEVER, Columns
from nki_agent.memory.forms import Ints
from nki_agent.memory.written import Cells, histories
from nki_agent.program.records import Access

HINT = (
    "cover the tail: loop over ceil(n / tile) tiles and clip the last one,"
    " `size = min(tile, n - start)`"
)


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor whose every element must be written, as messages call it."""

    tensor: int
    label: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """Elements that are missing: runs [start, end) in row-major order."""

    starts: Ints
    ends: Ints

    @property
    def num_elems(self) -> int:
        """How many are missing."""
        return int((self.ends - self.starts).sum())


def check(columns: Columns) -> Iterator[Diagnostic]:
    """A finding for every output with missing elements."""
    covered = columns.first_cover(columns.writes)
    wanted = [o for o in find_outputs(columns) if covered[o.tensor] == NEVER]
    wanted = [o for o in wanted if columns.unwritten_at_start[o.tensor]]
    if not wanted:
        return
    is_wanted = np.zeros(len(columns.program.tensors), np.bool_)
    is_wanted[[o.tensor for o in wanted]] = True
    rows = np.flatnonzero(is_wanted[columns.tensor] & columns.writes)
    found = {h.tensor: h for h in histories(columns, rows)}
    for output in wanted:
        history = found.get(output.tensor)
        if history is None:
            yield _never_written(columns, output)
            continue
        cells = Cells(columns, history)
        writes = np.ones(len(history.rows), np.bool_)
        missing = np.flatnonzero(cells.first_times(writes, history.ranks) == NEVER)
        if len(missing):
            last = columns.body[int(columns.time[history.rows[-1]])].stack
            where = columns.program.stack(last)
            gap = _gap(columns, cells, missing, output)
            yield _partly_written(output, gap, where)


def find_outputs(columns: Columns) -> list[Output]:
    """Results in return order, then arguments that the kernel is to write."""
    program = columns.program
    outputs = [
        Output(result.tensor, f"result {index}", result.shape)
        for index, result in enumerate(program.results)
    ]
    known = {o.tensor for o in outputs}
    for argument in program.arguments:
        if argument.tensor is None or argument.access is not Access.WRITE:
            continue
        if argument.tensor not in known:
            shape = program.tensors[argument.tensor].shape
            outputs.append(Output(argument.tensor, f"argument `{argument.name}`", shape))
    return outputs


def _never_written(columns: Columns, output: Output) -> Diagnostic:
    tensor = columns.program.tensors[output.tensor]
    return Diagnostic(
        code="NK208",
        what=f"{output.label} {list(output.shape)} is never written (unwritten output)",
        where=columns.program.stack(tensor.stack),
        hint="store it: `nisa.dma_copy(dst=output, src=tile)`",
    )


def _gap(columns: Columns, cells: Cells, missing: Ints, output: Output) -> Gap:
    itemsize = columns.program.tensors[output.tensor].dtype.itemsize
    breaks = np.flatnonzero(np.diff(missing) != 1)
    starts = missing[np.concatenate([np.zeros(1, np.int64), breaks + 1])]
    ends = missing[np.concatenate([breaks, np.array([len(missing) - 1])])] + 1
    # An element of which a part is missing is missing.
    return Gap(starts * cells.grain // itemsize, -(-ends * cells.grain // itemsize))


def _partly_written(output: Output, gap: Gap, where: Stack) -> Diagnostic:
    total = int(np.prod(np.array(output.shape, np.float64)))
    return Diagnostic(
        code="NK208",
        what=f"{gap.num_elems} of {total} elements of {output.label} {list(output.shape)}"
        f" are never written (unwritten output): {describe_gap(gap, output.shape)}",
        where=where,
        hint=HINT,
    )


def describe_gap(gap: Gap, shape: tuple[int, ...]) -> str:
    """Name rows and columns of the missing elements; the first too, where that says too much."""
    first = [int(i) for i in np.unravel_index(int(gap.starts[0]), shape)] if shape else []
    if len(shape) < len(("row", "column")):
        size = shape[0] if shape else 1
        return f"elements {int(gap.starts[0])}..{int(gap.ends[-1]) - 1} of {size}"
    size = shape[-1]
    row_elems = int(np.prod(np.array(shape[1:], np.float64)))
    rows = (int(gap.starts[0]) // row_elems, (int(gap.ends[-1]) - 1) // row_elems)
    in_one = gap.starts // size == (gap.ends - 1) // size
    low = 0 if not in_one.all() else int((gap.starts % size).min())
    high = size - 1 if not in_one.all() else int(((gap.ends - 1) % size).max())
    parts = [f"rows {rows[0]}..{rows[1]} of {shape[0]}"]
    if (low, high) != (0, size - 1):
        parts.append(f"columns {low}..{high} of {size}")
    box = (rows[1] - rows[0] + 1) * (high - low + 1) * (row_elems // size)
    if box != gap.num_elems:
        parts.append(f"the first at index {first}")
    return ", ".join(parts)
