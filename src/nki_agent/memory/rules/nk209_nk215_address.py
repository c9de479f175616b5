"""NK215 and NK209: addresses that the kernel gives are legal, and don't clash.

Law: an address is (partition, byte in the partition). A PSUM address is the start of a bank; a
partition is one that the engines can start at for so many partitions (migration guide, "Improved
allocation API"; architecture guide, access patterns). Two tensors with addresses may share bytes
when one is used only after the other, or on another core.
"""

from __future__ import annotations

from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.isa.rules import allowed_starts
from nki_agent.memory.columns import Columns, describe_tensor, made_at
from nki_agent.program.records import Tensor

COMPARISONS_MAX = 10_000_000
"""Pairs of tensors that are compared; more would take minutes."""
ALIGNMENT_BYTES = max(dtype.itemsize for dtype in DType)
"""Places begin at a multiple of the widest element."""


def check_addresses(columns: Columns) -> Iterator[Diagnostic]:
    """NK215: every given address is inside of its memory and aligned."""
    program, chip = columns.program, columns.chip
    for tensor in program.tensors:
        if tensor.address is None or not tensor.memory.is_on_chip:
            continue
        partition, start = tensor.address
        is_psum = tensor.memory is Memory.PSUM
        size = chip.psum_partition_bytes if is_psum else chip.sbuf_usable_partition_bytes
        align = chip.psum_bank_bytes if is_psum else tensor.dtype.itemsize
        unit = "the bytes of a bank" if is_psum else f"the bytes of a {tensor.dtype.value}"
        end = start + tensor.partition_bytes
        starts = allowed_starts(tensor.partitions)
        if start < 0 or end > size:
            yield _bad(columns, tensor, f"bytes {start}..{end - 1}", f"0..{size - 1}")
        elif start % align:
            yield _bad(columns, tensor, f"byte {start}", f"a multiple of {align}, {unit}")
        elif partition not in starts or partition + tensor.partitions > chip.partitions:
            limit = " or ".join(map(str, starts))
            yield _bad(columns, tensor, f"partition {partition}", limit)


def _bad(columns: Columns, tensor: Tensor, got: str, limit: str) -> Diagnostic:
    return Diagnostic(
        code="NK215",
        what=f"`address` of {describe_tensor(tensor)}",
        got=got,
        limit=limit,
        where=columns.program.stack(tensor.stack),
        hint="`address` is (partition, byte in the partition); leave it out to have one chosen",
    )


def check_overlaps(columns: Columns) -> Iterator[Diagnostic]:
    """NK209: tensors with addresses that are live together share no bytes."""
    program = columns.program
    placed = [
        i
        for i, tensor in enumerate(program.tensors)
        if tensor.address is not None and tensor.memory.is_on_chip and columns.first_use[i] >= 0
    ]
    placed.sort(key=lambda i: int(columns.first_use[i]))
    cores, first, last = (
        c.tolist() for c in (columns.core_of_tensor, columns.first_use, columns.last_use)
    )
    live: list[int] = []
    compared = 0
    for i in placed:
        now = first[i]
        live = [j for j in live if last[j] >= now]
        compared += len(live)
        if compared > COMPARISONS_MAX:
            yield _too_many(columns, len(placed), now)
            return
        for j in live:
            if cores[i] == cores[j] and _clash(program.tensors[i], program.tensors[j]):
                yield _overlap(columns, program.tensors[i], program.tensors[j], now)
                break
        live.append(i)


def _too_many(columns: Columns, count: int, time: int) -> Diagnostic:
    return Diagnostic(
        code="NK114",
        what=f"whether {count} tensors with an `address` overlap is not modelled: too many of them"
        " are live together",
        where=columns.program.stack(columns.body[time].stack),
        hint="allocate fewer, larger tiles and slice them, or leave `address` out",
    )


def _clash(one: Tensor, other: Tensor) -> bool:
    if one.memory is not other.memory or one.address is None or other.address is None:
        return False
    below = one.address[0] < other.address[0] + other.partitions
    above = other.address[0] < one.address[0] + one.partitions
    before = one.address[1] < other.address[1] + other.partition_bytes
    after = other.address[1] < one.address[1] + one.partition_bytes
    return below and above and before and after


def _overlap(columns: Columns, later: Tensor, earlier: Tensor, time: int) -> Diagnostic:
    def span(tensor: Tensor) -> str:
        assert tensor.address is not None
        start = tensor.address[1]
        return f"bytes {start}..{start + tensor.partition_bytes - 1}"

    return Diagnostic(
        code="NK209",
        what=f"`address` of {describe_tensor(later)} ({span(later)}) overlaps"
        f" {describe_tensor(earlier)} ({span(earlier)}, {made_at(columns.program, earlier)}),"
        " which is still in use",
        where=columns.program.stack(columns.body[time].stack),
        hint="give them disjoint addresses, finish with one before the other is used, or leave"
        " `address` out",
    )
