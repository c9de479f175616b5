"""NK205 and NK206: what is live together does not fit SBUF, or PSUM.

Law: liveness is exact (first to last access). Each PSUM tensor has whole banks of its own: the
vendor's compiler refuses one that does not start at a bank (migration guide, "Improved allocation
API"), and one bank holds one accumulation group (architecture guide, PSUM).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.enums import Memory
from nki_agent.memory.allocator import Demand
from nki_agent.memory.columns import Columns, made_at
from nki_agent.memory.forms import Ints

NAMED = 3
"""Live tensors that a message names."""


def check_total(
    columns: Columns, memory: Memory, demand: Demand, totals: Ints, *, capacity: int
) -> Iterator[Diagnostic]:
    """A finding at the instruction where most is live, if that is more than there is."""
    if not len(totals) or int(totals.max()) <= capacity:
        return
    peak = int(totals.argmax())
    unit = "bytes of each partition" if memory is Memory.SBUF else "banks"
    yield _full(columns, memory, demand, peak, got=f"{totals[peak]} {unit}", limit=f"{capacity}")


def scattered(columns: Columns, memory: Memory, demand: Demand, totals: Ints) -> Diagnostic:
    """The finding where the total fits, but no gap is large enough for each tensor."""
    peak = int(totals.argmax())
    return _full(columns, memory, demand, peak, got="in pieces", limit="one piece for each tensor")


def _full(
    columns: Columns, memory: Memory, demand: Demand, peak: int, *, got: str, limit: str
) -> Diagnostic:
    program = columns.program
    is_sbuf = memory is Memory.SBUF
    largest = _largest_live(columns, demand, peak, unit="bytes" if is_sbuf else "banks")
    return Diagnostic(
        code="NK205" if is_sbuf else "NK206",
        what=f"{'SBUF' if is_sbuf else 'PSUM'} in use at once",
        got=got,
        limit=limit,
        where=program.stack(columns.body[peak].stack),
        hint=f"largest live: {'; '.join(largest)}. "
        + (
            f"Use smaller tiles or end their use earlier{_smaller(columns, demand, peak, limit)}"
            if is_sbuf
            else "Copy results to SBUF sooner"
        ),
    )


def _smaller(columns: Columns, demand: Demand, peak: int, capacity: str) -> str:
    """How far the largest tile's free size must be halved for all to fit, if that is enough."""
    live = [
        (size, number)
        for size, number, first, last in zip(
            demand.sizes, demand.tensors, demand.first, demand.last, strict=True
        )
        if first <= peak <= last
    ]
    largest, number = max(live)
    tensor = columns.program.tensors[number]
    others, free = sum(size for size, _ in live) - largest, tensor.shape[-1]
    while free > 1 and capacity.isdigit() and others + largest > int(capacity):
        free, largest = free // 2, largest // 2
    if free in (1, tensor.shape[-1]):
        return ""
    return f"; {[*tensor.shape[:-1], free]} would fit: loop over such blocks"


def _largest_live(columns: Columns, demand: Demand, peak: int, *, unit: str) -> Sequence[str]:
    sizes = np.array(demand.sizes, np.int64)
    live = (np.array(demand.first) <= peak) & (np.array(demand.last) >= peak)
    order = np.argsort(-np.where(live, sizes, 0), kind="stable")[: min(NAMED, int(live.sum()))]
    texts = []
    for i in order.tolist():
        tensor = columns.program.tensors[demand.tensors[i]]
        name = f"`{tensor.name}` " if tensor.name else ""
        what = f"{name}{list(tensor.shape)} {tensor.dtype.value}"
        texts.append(f"{what}, {demand.sizes[i]} {unit} ({made_at(columns.program, tensor)})")
    return texts
