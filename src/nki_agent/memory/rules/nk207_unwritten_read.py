"""NK207: an instruction reads bytes that nothing has written.

Law: exact for each byte of each partition, in the order of `program.line`: a loop's body once. A
tensor that one instruction writes whole needs no more than a comparison of times; only the accesses
up to that one are looked at cell by cell. What a counter with known values passes over counts as
written from its first iteration on, and only the first iteration's reads are looked at; the
simulator sees the rest.
A warning, not an error, where it depends on run-time values: on how often a loop runs (a write
inside counts for reads inside of the same loop), and on offsets. A read at an unknown offset asks
for all that it can reach; it is an error only if nothing there was written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.memory.columns import Columns, describe_tensor
from nki_agent.memory.forms import Flags, Ints
from nki_agent.memory.written import Cells, History, histories
from nki_agent.program.line import OUTSIDE
from nki_agent.program.records import Tensor


@dataclass(frozen=True, slots=True)
class UnwrittenRead:
    """One read of bytes that nothing has written, or may not have: a row of `Columns`."""

    row: int
    history: History
    position: int
    """The row's place in the history."""
    is_certain: bool


def find_unwritten_reads(columns: Columns) -> list[UnwrittenRead]:
    """Every read that sees an unwritten byte, or may see one, in program order."""
    tensor, time = columns.tensor, columns.time
    certainty = _Certainty(columns)
    covered = columns.first_cover(columns.writes & certainty.always)
    early = time <= covered[tensor]
    doubtful = columns.reads & early & columns.unwritten_at_start[tensor]
    if not doubtful.any():
        return []
    is_doubtful = np.zeros(len(columns.program.tensors), np.bool_)
    is_doubtful[tensor[doubtful]] = True
    rows = np.flatnonzero(early & is_doubtful[tensor] & (columns.reads | columns.writes))
    found: list[UnwrittenRead] = []
    known: dict[bytes, list[tuple[int, bool]]] = {}
    for history in histories(columns, rows):
        key = history.key + certainty.key(history)
        bad = known.get(key)
        if bad is None:
            bad = known[key] = _bad_reads(columns, certainty, history)
        found.extend(UnwrittenRead(int(history.rows[i]), history, i, sure) for i, sure in bad)
    return sorted(found, key=lambda read: read.row)


class _Certainty:
    """Which writes surely happen before a read that comes later."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        spans = columns.line.spans
        innermost = [
            next((i for i in reversed(span.path) if not spans[i].is_certain), OUTSIDE)
            for span in spans
        ]
        self._loop: Ints = np.array([*innermost, OUTSIDE], np.int64)[columns.span]
        self._has_loops = any(i != OUTSIDE for i in innermost)
        self.always: Flags = ~columns.may & (self._loop == OUTSIDE)
        """Accesses at known places, outside of loops that may not run."""

    def key(self, history: History) -> bytes:
        """What tells apart histories whose accesses lie in different loops."""
        return self._loop[history.rows].tobytes() if self._has_loops else b""

    def is_needed(self, history: History) -> bool:
        """Whether some write of the history may not happen."""
        return not self.always[history.rows].all()

    def groups(self, history: History, reads: Flags) -> list[tuple[Flags, Flags]]:
        """Reads of one loop each, with the writes that surely happen before them."""
        rows, spans = history.rows, self._columns.line.spans
        loops, may = self._loop[rows], self._columns.may[rows]
        found = []
        for loop in np.unique(loops[reads]).tolist():
            around = [OUTSIDE] if loop == OUTSIDE else [OUTSIDE, *spans[loop].path]
            sure = self._columns.writes[rows] & ~may & np.isin(loops, around)
            found.append((reads & (loops == loop), sure))
        return found


def _bad_reads(columns: Columns, certainty: _Certainty, history: History) -> list[tuple[int, bool]]:
    """Places in the history of reads that come too early, and whether that is certain."""
    rows, ranks = history.rows, history.ranks
    reads, writes = columns.reads[rows], columns.writes[rows]
    cells = Cells(columns, history)
    low, high = cells.extremes(cells.first_times(writes, ranks), reads)
    # A read that a run-time offset moves surely sees nothing only where nothing was written.
    sure = np.where(columns.may[rows][reads], low, high) >= ranks[reads]
    places = np.flatnonzero(reads)
    bad = dict.fromkeys(places[sure].tolist(), True)
    if certainty.is_needed(history):
        for chosen, before in certainty.groups(history, reads):
            high = cells.extremes(cells.first_times(before, ranks), chosen)[1]
            late = np.flatnonzero(chosen)[high >= ranks[chosen]]
            bad |= {place: bad.get(place, False) for place in late.tolist()}
    return sorted(bad.items())


def _missing(columns: Columns, read: UnwrittenRead) -> tuple[int, str]:
    """How many elements hold nothing, and where they lie."""
    history, place = read.history, read.position
    cells = Cells(columns, history)
    writes = columns.writes[history.rows]
    if not read.is_certain:
        writes &= ~columns.may[history.rows]
    first = cells.first_times(writes, history.ranks)
    touched = cells.touched(place)
    missing = touched[first[touched] >= history.ranks[place]]
    itemsize = _itemsize(columns, read.row)
    tensor = columns.program.tensors[history.tensor]
    is_all = len(missing) in (0, len(touched))
    span = "all that it reads" if is_all else _span(cells, missing, tensor, itemsize)
    return max(1, len(missing) * cells.grain // itemsize), span


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


def _is_on_chip(columns: Columns, read: UnwrittenRead) -> bool:
    return columns.program.tensors[int(columns.tensor[read.row])].memory.is_on_chip


def make_finding(columns: Columns, read: UnwrittenRead, *, severity: Severity) -> Diagnostic:
    """The finding for one read; a warning where no result depends on the bytes."""
    program = columns.program
    operand = columns.forms.operands[int(columns.form[read.row])]
    instruction = columns.body[int(columns.time[read.row])]
    op = program.signatures[instruction.signature].op
    tensor = describe_tensor(program.tensors[int(columns.tensor[read.row])])
    if read.is_certain:
        count, span = _missing(columns, read)
        elems = "element" if count == 1 else "elements"
        fate = "" if severity is Severity.ERROR else "; no result depends on them"
        what = (
            f"`{operand.role}` of `{op}` reads {count} {elems} of {tensor} that nothing has"
            f" written yet (uninitialised): {span}{fate}"
        )
        hint = (
            "write the tile first (`nisa.dma_copy`, `nisa.memset`), or slice every operand to the"
            " rows and columns that hold data: `tile[:rows, :cols]`"
        )
        if len(program.bodies) > 1 and not _is_on_chip(columns, read):
            hint = (
                "if the other core writes them, let both call `nisa.core_barrier(data=...,"
                " cores=(0, 1))` in between; else write them first"
            )
    else:
        what = (
            f"`{operand.role}` of `{op}` may read elements of {tensor} that nothing has written:"
            " that depends on a run-time offset, or on a loop that may not run"
        )
        hint = "fill the tensor first (`nisa.memset`), before the loop or the moved write"
    return Diagnostic(
        code="NK207",
        severity=severity if read.is_certain else Severity.WARNING,
        what=what,
        where=program.stack(instruction.stack),
        hint=hint,
    )
