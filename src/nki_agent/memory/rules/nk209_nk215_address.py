"""NK215 and NK209: addresses that the kernel gives are legal, and don't clash.

Law: an address is (partition, byte in the partition). A PSUM address is the start of a bank; a
partition is one that the engines can start at for so many partitions (migration guide, "Improved
allocation API"; architecture guide, access patterns). Two tensors with addresses may share bytes
when one is used only after the other, or on another core.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.isa.rules import PARTITION_STARTS, allowed_starts
from nki_agent.memory.columns import Columns, describe_tensor, made_at
from nki_agent.program.records import Tensor

ALIGNMENT_BYTES = max(dtype.itemsize for dtype in DType)
"""Places begin at a multiple of the widest element."""
QUADRANT = min(PARTITION_STARTS)
"""Partitions between places where tensors can start."""


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
    """NK209: tensors with addresses that are live together share no bytes.

    The addresses have passed `check_addresses`.
    """
    program = columns.program
    placed = [
        i
        for i, tensor in enumerate(program.tensors)
        if tensor.address is not None and tensor.memory.is_on_chip and columns.first_use[i] >= 0
    ]
    placed.sort(key=lambda i: int(columns.first_use[i]))
    quadrants: defaultdict[tuple[int, Memory, int], _Quadrant] = defaultdict(_Quadrant)
    for i in placed:
        tensor, now = program.tensors[i], int(columns.first_use[i])
        core = int(columns.core_of_tensor[i])
        clashes = [
            other
            for number in _quadrants_of(tensor)
            for other in quadrants[core, tensor.memory, number].add(tensor, i, columns, now)
        ]
        if clashes:
            earlier = program.tensors[min(clashes)]
            yield _overlap(columns, tensor, earlier, now)


def _quadrants_of(tensor: Tensor) -> range:
    """Tensors that share a quadrant share its first partition, as they start at such a one."""
    assert tensor.address is not None
    first = tensor.address[0]
    return range(first // QUADRANT, (first + tensor.partitions - 1) // QUADRANT + 1)


class _Quadrant:
    """The tensors that were last placed in each byte of a quadrant's partitions, by address."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._tensors: list[int] = []

    def add(self, tensor: Tensor, index: int, columns: Columns, now: int) -> list[int]:
        """Place a tensor over what lies there; those of them that are still in use."""
        assert tensor.address is not None
        start = tensor.address[1]
        end = start + tensor.partition_bytes
        low, high = bisect_right(self._ends, start), bisect_left(self._starts, end)
        below = self._tensors[low:high]
        self._starts[low:high], self._ends[low:high] = [start], [end]
        self._tensors[low:high] = [index]
        return [other for other in below if columns.last_use[other] >= now]


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
