"""NK207: an instruction reads bytes that nothing has written.

Law: exact for each byte of each partition. A tensor that one instruction writes whole needs no more
than a comparison of times; only the accesses up to that one are looked at cell by cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.memory.columns import Columns, Ints, describe_tensor
from nki_agent.memory.written import Cells, History, histories
from nki_agent.program.records import Tensor


@dataclass(frozen=True, slots=True)
class UnwrittenRead:
    """One read of bytes that nothing has written: a row of `Columns`, and which bytes."""

    row: int
    num_elems: int
    span: str
    """The rows, or the first element, that hold nothing."""


def find_unwritten_reads(columns: Columns) -> list[UnwrittenRead]:
    """Every read that sees an unwritten byte, in program order."""
    tensor, time = columns.tensor, columns.time
    covered = columns.first_cover(columns.writes)
    early = time <= covered[tensor]
    doubtful = columns.reads & early & columns.unwritten_at_start[tensor]
    if not doubtful.any():
        return []
    is_doubtful = np.zeros(len(columns.program.tensors), np.bool_)
    is_doubtful[tensor[doubtful]] = True
    rows = np.flatnonzero(early & is_doubtful[tensor] & (columns.reads | columns.writes))
    found: list[UnwrittenRead] = []
    known: dict[bytes, list[tuple[int, int, str]]] = {}
    for history in histories(columns, rows):
        bad = known.get(history.key)
        if bad is None:
            bad = known[history.key] = _bad_reads(columns, history)
        found.extend(UnwrittenRead(int(history.rows[i]), n, span) for i, n, span in bad)
    return sorted(found, key=lambda read: read.row)


def _bad_reads(columns: Columns, history: History) -> list[tuple[int, int, str]]:
    """Positions in the history of reads that come too early, with count and place of the bytes."""
    reads, writes = columns.reads[history.rows], columns.writes[history.rows]
    cells = Cells(columns, history)
    first = cells.first_times(writes, history.ranks)
    too_early = cells.highest(first, reads) >= history.ranks[reads]
    bad = []
    for position in np.flatnonzero(reads)[too_early]:
        touched = cells.touched(int(position))
        missing = touched[first[touched] >= history.ranks[position]]
        everything = len(missing) == len(touched)
        itemsize = _itemsize(columns, int(history.rows[position]))
        num_elems = max(1, len(missing) * cells.grain // itemsize)
        tensor = columns.program.tensors[history.tensor]
        span = "all that it reads" if everything else _span(cells, missing, tensor, itemsize)
        bad.append((int(position), num_elems, span))
    return bad


def _itemsize(columns: Columns, row: int) -> int:
    return columns.forms.operands[int(columns.form[row])].dtype.itemsize


def _span(cells: Cells, missing: Ints, tensor: Tensor, itemsize: int) -> str:
    """Where the missing cells lie: partitions and columns on chip, the first element in HBM."""
    start_bytes = missing * cells.grain
    if not tensor.memory.is_on_chip:
        return f"from element {int(start_bytes[0]) // itemsize} on"
    end_bytes = start_bytes + cells.grain - 1
    first, last = int(start_bytes[0]) // cells.row_bytes, int(end_bytes[-1]) // cells.row_bytes
    low = int((start_bytes % cells.row_bytes).min()) // itemsize
    high = int((end_bytes % cells.row_bytes).max()) // itemsize
    return f"partitions {first}..{last}, elements {low}..{high} of each"


def make_finding(columns: Columns, read: UnwrittenRead, *, severity: Severity) -> Diagnostic:
    """The finding for one read; a warning where no result depends on the bytes."""
    program = columns.program
    operand = columns.forms.operands[int(columns.form[read.row])]
    instruction = columns.body[int(columns.time[read.row])]
    op = program.signatures[instruction.signature].op
    tensor = program.tensors[int(columns.tensor[read.row])]
    elems = "element" if read.num_elems == 1 else "elements"
    fate = "" if severity is Severity.ERROR else "; no result depends on them"
    return Diagnostic(
        code="NK207",
        severity=severity,
        what=f"`{operand.role}` of `{op}` reads {read.num_elems} {elems} of"
        f" {describe_tensor(tensor)} that nothing has written yet (uninitialised):"
        f" {read.span}{fate}",
        where=program.stack(instruction.stack),
        hint="write the tile first (`nisa.dma_copy`, `nisa.memset`), or slice every operand to the"
        " rows and columns that hold data: `tile[:rows, :cols]`",
    )
