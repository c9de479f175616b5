"""NK601: places of a kernel where short DMA descriptors waste the DMA engines' time.

Law: a place is reported where its descriptors are shorter than the chip's efficient length on
average and hold the DMA engines for a share of the latency that matters. One finding a place, the
costliest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.chip.spec import ChipSpec
from nki_agent.cost.plan import Plan
from nki_agent.cost.transfer import Transfer
from nki_agent.program.records import Instruction, Program

SHARE_MIN = 0.02
"""A place that holds the DMA engines for less of the latency is not worth a word."""
DESCRIPTORS_MIN = 64
"""Fewer descriptors are not many."""
US_NS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortDescriptors:
    """One place of a kernel with many short descriptors."""

    stack: int
    op: str
    transfers: int
    descriptors: int
    payload_bytes: int
    held_ns: float
    """Time that its transfers hold the DMA engines."""

    @property
    def mean_bytes(self) -> float:
        """Bytes of a descriptor on average."""
        return self.payload_bytes / self.descriptors


def find_short_descriptors(
    program: Program,
    plans: tuple[Plan, ...],
    executed: Iterable[tuple[Instruction, int, int]],
    latency_ns: float,
    chip: ChipSpec,
) -> tuple[ShortDescriptors, ...]:
    """Places where short descriptors cost a share of the latency, the costliest first.

    `executed` holds instructions, the numbers of their plans, and how often each ran.
    """
    limit = chip.dma_efficient_descriptor_bytes
    short = {
        index: plan.transfer
        for index, plan in enumerate(plans)
        if plan.transfer is not None and plan.transfer.descriptor_bytes < limit
    }
    if not short:
        return ()
    counts: dict[tuple[int, int], int] = {}
    ops: dict[int, str] = {}
    for node, plan, weight in executed:
        if plan in short:
            key = (node.stack, plan)
            counts[key] = counts.get(key, 0) + weight
            ops[plan] = program.signatures[node.signature].op
    places: dict[tuple[int, str], list[tuple[int, int, Transfer]]] = {}
    for (stack, plan), count in counts.items():
        site = program.stacks[stack][-1] if program.stacks[stack] else -1
        places.setdefault((site, ops[plan]), []).append((stack, count, short[plan]))
    found = [_add_up(op, rows) for (_, op), rows in places.items()]
    costly = [
        place
        for place in found
        if place.descriptors >= DESCRIPTORS_MIN and place.held_ns >= SHARE_MIN * latency_ns
    ]
    return tuple(sorted(costly, key=lambda place: -place.held_ns))


def _add_up(op: str, rows: list[tuple[int, int, Transfer]]) -> ShortDescriptors:
    return ShortDescriptors(
        stack=rows[0][0],
        op=op,
        transfers=sum(count for _, count, _ in rows),
        descriptors=sum(count * t.descriptors for _, count, t in rows),
        payload_bytes=sum(count * t.payload_bytes for _, count, t in rows),
        held_ns=sum(count * max(t.engine_ns) for _, count, t in rows),
    )


def advise_on(program: Program, place: ShortDescriptors, chip: ChipSpec) -> Diagnostic:
    """The finding for one place."""
    return Diagnostic(
        code="NK601",
        severity=Severity.ADVICE,
        what=f"mean size of the {place.descriptors} descriptors of {place.transfers} `{place.op}`"
        f" ({place.held_ns / US_NS:.1f} µs of DMA time)",
        got=f"{place.mean_bytes:.0f} bytes",
        limit=f"{chip.dma_efficient_descriptor_bytes} bytes or more",
        where=program.stack(place.stack),
        hint="move longer contiguous rows in one call; to transpose, load rows and use"
        " `nisa.nc_transpose`",
    )
