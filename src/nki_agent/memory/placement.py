"""Where each on-chip tensor lies and when, and what is wrong with a Program's use of memory.

Law: values never depend on a `Placement`; it says whether the kernel fits, and what waits for what.
An address that the kernel gives is kept. Each core has its own SBUF and PSUM. A tensor that a loop
did not make is live for all of a loop that touches it; one that the loop's body makes, from its
first to its last use there. Findings are in the order of how basic they are, one for each place.
Not covered: spilling; races. Inside `no_reorder` there are none to find: the block puts edges
between every pair of instructions (NKI scheduling guide), and outside of it the compiler orders
what touches the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.enums import Memory
from nki_agent.memory.allocator import (
    NOBODY,
    Demand,
    Layout,
    TooManyError,
    find_layout,
    live_totals,
)
from nki_agent.memory.columns import Columns, describe_tensor
from nki_agent.memory.forms import Ints
from nki_agent.memory.poison import reaches_an_output
from nki_agent.memory.rules import (
    nk204_psum_bank_overflow,
    nk205_nk206_capacity,
    nk207_unwritten_read,
    nk208_result_unwritten,
    nk209_nk215_address,
    nk212_written_argument,
    nk214_accumulate_not_started,
)
from nki_agent.memory.written import TooFineError
from nki_agent.program.records import Program

FINDINGS_MAX = 8
"""Findings of one code that are kept: the same fault in many places is one fault."""
NOWHERE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What the memory pass chose; tuples are indexed by tensor id."""

    addresses: tuple[int, ...]
    """First byte in the partition of SBUF or PSUM; -1 for HBM, unused tensors, and where nothing
    fits."""
    first_use: tuple[int, ...]
    """When the tensor's life begins, in the order of `program.line`; -1 if nothing touches it."""
    last_use: tuple[int, ...]
    """When its life ends; -1 if nothing touches it."""
    reuses: tuple[tuple[int, ...], ...]
    """Tensors whose bytes this one takes over: its first write waits for their last use."""
    peak_sbuf_bytes: int
    """The most bytes of one partition that are live together on a core."""
    peak_psum_banks: int
    """The most PSUM banks that are live together on a core."""


def place_program(program: Program, chip: ChipSpec) -> tuple[Placement, tuple[Diagnostic, ...]]:
    """Give every on-chip tensor an address and check every use of memory.

    The Program must have passed `program.validate.check_program` for this chip.
    """
    columns = Columns(program, chip)
    builder = _Builder(columns)
    findings = list(_first_of_each(_check_cores(columns)))
    bad_addresses = list(_first_of_each(nk209_nk215_address.check_addresses(columns)))
    findings += bad_addresses
    if not bad_addresses:
        # An address outside of its memory has no place in a layout.
        findings += _first_of_each(nk209_nk215_address.check_overlaps(columns))
        findings += builder.place(Memory.SBUF)
        findings += builder.place(Memory.PSUM)
    findings += [
        *_first_of_each(nk204_psum_bank_overflow.check(columns)),
        *_first_of_each(nk212_written_argument.check(columns)),
        *_check_contents(columns),
    ]
    return builder.finish(), tuple(findings)


def _check_cores(columns: Columns) -> Iterator[Diagnostic]:
    """An on-chip tensor belongs to one core: tracing gives each core its own."""
    if columns.line.core_of is None:
        return
    on_chip = columns.memory_is(Memory.SBUF) | columns.memory_is(Memory.PSUM)
    tensor = columns.tensor
    strange = on_chip[tensor] & (columns.core != columns.core_of_tensor[tensor])
    for row in np.flatnonzero(strange)[:1].tolist():
        yield Diagnostic(
            code="NK902",
            what="the traced Program is not one that an honest trace makes: a core uses the SBUF or"
            " PSUM of the other",
            where=columns.program.stack(columns.body[int(columns.time[row])].stack),
            hint="a kernel must only call `nki` functions",
        )


def _check_contents(columns: Columns) -> Iterator[Diagnostic]:
    """Rules about what memory holds, for tensors that can be followed."""
    try:
        yield from _first_of_each(nk214_accumulate_not_started.check(columns))
        yield from _first_of_each(_unwritten_reads(columns))
        yield from _first_of_each(nk208_result_unwritten.check(columns))
    except TooFineError as error:
        tensor = columns.program.tensors[error.tensor]
        yield Diagnostic(
            code="NK114",
            what=f"whether {describe_tensor(tensor)} is written before it is read is not modelled:"
            " it is written in pieces too many and too small",
            where=columns.program.stack(tensor.stack),
            hint="write larger contiguous pieces",
        )


def _unwritten_reads(columns: Columns) -> Iterator[Diagnostic]:
    reads = nk207_unwritten_read.find_unwritten_reads(columns)
    if not reads:
        return
    is_bad = any(read.is_certain for read in reads) and reaches_an_output(columns)
    severity = Severity.ERROR if is_bad else Severity.WARNING
    seen: set[int] = set()
    for read in reads:
        stack = columns.body[int(columns.time[read.row])].stack
        if stack in seen:
            continue
        seen.add(stack)
        yield nk207_unwritten_read.make_finding(columns, read, severity=severity)


def _first_of_each(findings: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The first finding of each kernel line, up to a limit."""
    seen: set[object] = set()
    for finding in findings:
        place = (finding.code, finding.where)
        if place in seen:
            continue
        seen.add(place)
        yield finding
        if len(seen) == FINDINGS_MAX:
            return


def _too_many(columns: Columns, memory: Memory, demand: Demand, totals: Ints) -> Diagnostic:
    peak = int(totals.argmax())
    live = int(((np.array(demand.first) <= peak) & (np.array(demand.last) >= peak)).sum())
    return Diagnostic(
        code="NK114",
        what=f"whether {len(demand.tensors)} tensors fit {memory.value.upper()} is not modelled:"
        f" up to {live} small ones are live together, which takes too long to place",
        where=columns.program.stack(columns.body[peak].stack),
        hint="allocate fewer, larger tiles and slice them",
    )


class _Builder:
    """Collects the parts of a Placement, memory by memory."""

    def __init__(self, columns: Columns) -> None:
        count = len(columns.program.tensors)
        self._columns = columns
        self._addresses = [NOWHERE] * count
        self._reuses: list[tuple[int, ...]] = [()] * count
        self._peaks = {Memory.SBUF: 0, Memory.PSUM: 0}

    def place(self, memory: Memory) -> Iterator[Diagnostic]:
        """Place the tensors of one memory of each core; a finding where they don't fit."""
        for core in range(len(self._columns.program.bodies)):
            yield from self._place(memory, core)

    def _place(self, memory: Memory, core: int) -> Iterator[Diagnostic]:
        columns = self._columns
        unit, capacity = self._unit_and_capacity(memory)
        demand = self._demand(memory, unit, core)
        if not demand.tensors:
            return
        totals = live_totals(demand, self._weights(demand), len(columns.body))
        self._peaks[memory] = max(self._peaks[memory], int(totals.max()))
        full = list(
            nk205_nk206_capacity.check_total(columns, memory, demand, totals, capacity=capacity)
        )
        if full:
            yield from full
            return
        try:
            layout = find_layout(demand, capacity=capacity)
        except TooManyError:
            yield _too_many(columns, memory, demand, totals)
            return
        if layout is None:
            yield nk205_nk206_capacity.scattered(columns, memory, demand, totals)
            return
        self._keep(demand, layout, unit if memory is Memory.PSUM else 1)

    def _unit_and_capacity(self, memory: Memory) -> tuple[int, int]:
        chip = self._columns.chip
        if memory is Memory.PSUM:
            return chip.psum_bank_bytes, chip.psum_banks
        return nk209_nk215_address.ALIGNMENT_BYTES, chip.sbuf_usable_partition_bytes

    def _demand(self, memory: Memory, unit: int, core: int) -> Demand:
        """Used tensors of a memory by first use; sizes in banks for PSUM, in bytes for SBUF."""
        columns, tensors = self._columns, self._columns.program.tensors
        is_used = columns.memory_is(memory) & (columns.first_use >= 0)
        if columns.line.core_of is not None:
            is_used &= columns.core_of_tensor == core
        used = np.flatnonzero(is_used)
        order = used[np.argsort(columns.first_use[used], kind="stable")]
        units = -(-columns.partition_bytes[order] // unit)
        ids: list[int] = order.tolist()
        scale = 1 if memory is Memory.PSUM else unit
        down = unit if memory is Memory.PSUM else 1
        fixed = [NOBODY if (a := tensors[i].address) is None else a[1] // down for i in ids]
        return Demand(
            tensors=ids,
            sizes=(units * scale).tolist(),
            first=columns.first_use[order].tolist(),
            last=columns.last_use[order].tolist(),
            fixed=fixed,
        )

    def _weights(self, demand: Demand) -> Ints:
        """What each tensor adds to the total.

        One above partition 0 lies over what is counted below it.
        """
        tensors = self._columns.program.tensors
        weights = np.array(demand.sizes, np.int64)
        for i in np.flatnonzero(np.array(demand.fixed, np.int64) != NOBODY).tolist():
            address = tensors[demand.tensors[i]].address
            if address is not None and address[0] > 0:
                weights[i] = 0
        return weights

    def _keep(self, demand: Demand, layout: Layout, unit: int) -> None:
        rows = zip(demand.tensors, layout.starts, layout.reuses, strict=True)
        for tensor, start, reuses in rows:
            self._addresses[tensor] = start * unit
            self._reuses[tensor] = reuses

    def finish(self) -> Placement:
        """The Placement of everything placed."""
        columns = self._columns
        return Placement(
            addresses=tuple(self._addresses),
            first_use=tuple(columns.first_use.tolist()),
            last_use=tuple(columns.last_use.tolist()),
            reuses=tuple(self._reuses),
            peak_sbuf_bytes=self._peaks[Memory.SBUF],
            peak_psum_banks=self._peaks[Memory.PSUM],
        )
