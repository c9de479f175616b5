"""Where each on-chip tensor lies and when, and what is wrong with a Program's use of memory.

Law: values never depend on a `Placement`; it says whether the kernel fits, and what waits for what.
An address that the kernel gives is kept. Findings are in the order of how basic they are, one for
each place.
Not covered: spilling, and what the older dialect's compiler moves; a loop is an error of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.enums import Memory
from nki_agent.memory.allocator import NOBODY, Demand, Layout, find_layout, live_totals
from nki_agent.memory.columns import Columns, Ints, describe_tensor
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
    """The first instruction that touches the tensor; -1 if none does."""
    last_use: tuple[int, ...]
    """The last instruction that touches the tensor; -1 if none does."""
    reuses: tuple[tuple[int, ...], ...]
    """Tensors whose bytes this one takes over: its first write waits for their last use."""
    peak_sbuf_bytes: int
    """The most bytes of one partition that are live together."""
    peak_psum_banks: int
    """The most PSUM banks that are live together."""


def place_program(program: Program, chip: ChipSpec) -> tuple[Placement, tuple[Diagnostic, ...]]:
    """Give every on-chip tensor an address and check every use of memory.

    The Program must have passed `program.validate.check_program` for this chip. NotImplementedError
    for a body with loops.
    """
    columns = Columns(program, chip)
    builder = _Builder(columns)
    findings = list(_first_of_each(nk209_nk215_address.check_addresses(columns)))
    if not findings:
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
    severity = Severity.ERROR if reaches_an_output(columns) else Severity.WARNING
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


class _Builder:
    """Collects the parts of a Placement, memory by memory."""

    def __init__(self, columns: Columns) -> None:
        count = len(columns.program.tensors)
        self._columns = columns
        self._addresses = [NOWHERE] * count
        self._reuses: list[tuple[int, ...]] = [()] * count
        self._peaks = {Memory.SBUF: 0, Memory.PSUM: 0}

    def place(self, memory: Memory) -> Iterator[Diagnostic]:
        """Place the tensors of one memory; a finding where they don't fit."""
        columns = self._columns
        unit, capacity = self._unit_and_capacity(memory)
        demand = self._demand(memory, unit)
        if not demand.tensors:
            return
        totals = live_totals(demand, self._weights(demand), len(columns.body))
        self._peaks[memory] = int(totals.max())
        full = list(
            nk205_nk206_capacity.check_total(columns, memory, demand, totals, capacity=capacity)
        )
        if full:
            yield from full
            return
        layout = find_layout(demand, capacity=capacity)
        if layout is None:
            yield nk205_nk206_capacity.scattered(columns, memory, demand, totals)
            return
        self._keep(demand, layout, unit if memory is Memory.PSUM else 1)

    def _unit_and_capacity(self, memory: Memory) -> tuple[int, int]:
        chip = self._columns.chip
        if memory is Memory.PSUM:
            return chip.psum_bank_bytes, chip.psum_banks
        return nk209_nk215_address.ALIGNMENT_BYTES, chip.sbuf_usable_partition_bytes

    def _demand(self, memory: Memory, unit: int) -> Demand:
        """Used tensors of a memory by first use; sizes in banks for PSUM, in bytes for SBUF."""
        columns, tensors = self._columns, self._columns.program.tensors
        used = np.flatnonzero(columns.memory_is(memory) & (columns.first_use >= 0))
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
