"""What a Timeline says, as a record and as text.

Law: every figure is the model's and carries its unit. Lines are grouped by source line and
instruction and ranked by their part of the deciding chain. Text from the Program is cleaned.
"""

from __future__ import annotations

import math
from collections import Counter

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.cost.advice import advise
from nki_agent.cost.bound import Bound
from nki_agent.cost.timeline import Timeline
from nki_agent.isa.enums import Engine
from nki_agent.program.records import Program

LINES_MAX = 10
US_NS = 1000
MB = 1e6


class EngineUse(msgspec.Struct, frozen=True):
    """How long an engine has work."""

    engine: Engine
    busy_ns: float
    share: float
    """Of the latency, 0 to 1."""


class SourceLine(msgspec.Struct, frozen=True):
    """The instructions of one kind that one source line makes."""

    place: str
    """`file:line`, cleaned."""
    op: str
    count: int
    critical_ns: float
    """Its part of the chain of instructions that decides the latency."""
    share: float
    """`critical_ns` of the latency, 0 to 1."""


class DmaUse(msgspec.Struct, frozen=True):
    """What the DMA engines moved."""

    read_bytes: int
    written_bytes: int
    transfers: int
    descriptors: int
    mean_descriptor_bytes: float
    rate_share: float
    """HBM bytes over what the effective rate moves in the latency, 0 to 1."""
    minimal_ratio: float | None
    """HBM bytes over the task's minimum, if that is known."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to: how long, what bounds it, where to look next."""

    kernel: str
    target: str
    latency_ns: float
    bound_ns: float | None
    bound_by: str | None
    percent_of_bound: float | None
    limit: str
    """What bounds the timeline: an engine, dma, or waits."""
    limit_text: str
    num_instructions: int
    cores: int
    engines: tuple[EngineUse, ...]
    lines: tuple[SourceLine, ...]
    dma: DmaUse
    advice: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What the latency leaves out."""


def summarise(timeline: Timeline, program: Program, bound: Bound | None = None) -> Summary:
    """Reduce a Timeline to what a person or a model acts on."""
    return Summary(
        kernel=clean(program.kernel),
        target=clean(program.target),
        latency_ns=timeline.latency_ns,
        bound_ns=None if bound is None else bound.ns,
        bound_by=None if bound is None else bound.resource.value,
        percent_of_bound=None if bound is None else bound.percent(timeline.latency_ns),
        limit=timeline.limit.kind.value,
        limit_text=timeline.limit.text,
        num_instructions=timeline.num_instructions,
        cores=timeline.num_cores,
        notes=tuple(f.what for f in timeline.findings if f.code == "NK602"),
        engines=tuple(
            EngineUse(engine, busy, timeline.utilisation(engine))
            for engine, busy in timeline.busy_ns.items()
        ),
        lines=_rank_lines(timeline, program),
        dma=_sum_up_dma(timeline, bound),
        advice=advise(timeline, program, bound),
    )


def _rank_lines(timeline: Timeline, program: Program) -> tuple[SourceLine, ...]:
    body = timeline.instructions
    ops = [signature.op for signature in program.signatures]
    sites = [stack[-1] if stack else -1 for stack in program.stacks]
    counts = Counter[tuple[int, str]]()
    for node, weight in zip(body, timeline.weights.tolist(), strict=True):
        counts[sites[node.stack], ops[node.signature]] += weight
    critical = dict.fromkeys(counts, 0.0)
    path = timeline.path
    for index, ns in zip(path.instructions.tolist(), path.ns.tolist(), strict=True):
        critical[sites[body[index].stack], ops[body[index].signature]] += ns
    ranked = sorted(critical, key=lambda key: (-critical[key], key))[:LINES_MAX]
    return tuple(
        SourceLine(
            place=str(program.sites[key[0]]) if key[0] >= 0 else "",
            op=key[1],
            count=counts[key],
            critical_ns=critical[key],
            share=critical[key] / timeline.latency_ns if timeline.latency_ns else 0.0,
        )
        for key in ranked
    )


def _sum_up_dma(timeline: Timeline, bound: Bound | None) -> DmaUse:
    dma = timeline.dma
    moved = dma.read_bytes + dma.written_bytes
    possible = timeline.latency_ns * timeline.chip.dma_bytes_per_ns * timeline.num_cores
    minimal = bound.work.hbm_bytes if bound is not None else 0
    return DmaUse(
        read_bytes=dma.read_bytes,
        written_bytes=dma.written_bytes,
        transfers=dma.transfers,
        descriptors=dma.descriptors,
        mean_descriptor_bytes=dma.payload_bytes / dma.descriptors if dma.descriptors else 0.0,
        rate_share=moved / possible if possible else 0.0,
        minimal_ratio=moved / minimal if minimal else None,
    )


def format_figure(number: float) -> str:
    """One digit after the point; under 1, two that count."""
    digits = 1 - math.floor(math.log10(number)) if 0 < number < 1 else 1
    return f"{number:.{digits}f}"


def format_percent(percent: float) -> str:
    """A whole number; under 1, what is left of it."""
    return f"{percent:.0f}" if percent >= 1 else format_figure(percent)


def format_summary(summary: Summary) -> str:
    """The summary as plain text, no colour needed."""
    cores = f", {summary.cores} cores" if summary.cores > 1 else ""
    time = format_figure(summary.latency_ns / US_NS)
    head = f"{time} µs on {summary.target}{cores} (modelled, not measured)"
    if summary.percent_of_bound is not None and summary.bound_ns is not None:
        head += (
            f", {format_percent(summary.percent_of_bound)} % of the bound"
            f" {format_figure(summary.bound_ns / US_NS)} µs ({summary.bound_by})"
        )
    engines = "  ".join(f"{e.engine.value} {100 * e.share:.0f} %" for e in summary.engines)
    dma = summary.dma
    moved = (
        f"{dma.read_bytes / MB:.2f} MB read, {dma.written_bytes / MB:.2f} MB written,"
        f" {dma.transfers} transfers, {dma.descriptors} descriptors of"
        f" {dma.mean_descriptor_bytes:.0f} bytes, {100 * dma.rate_share:.0f} % of the rate"
    )
    if dma.minimal_ratio is not None:
        moved += f", {dma.minimal_ratio:.2f}x the minimal bytes"
    both = " on both cores" if summary.cores > 1 else ""
    rows = [
        f"latency     {head}",
        *(f"but         {note}" for note in dict.fromkeys(summary.notes)),
        f"limited by  {summary.limit}: {summary.limit_text}",
        f"work        {engines}",
        f"dma         {moved}",
        f"chain       {summary.num_instructions} instructions{both}; the longest chain by line:",
        *(_format_line(line) for line in summary.lines if line.critical_ns > 0),
    ]
    if summary.advice:
        rows.append("where to look next")
        rows.extend(f"  {number}. {line}" for number, line in enumerate(summary.advice, start=1))
    return "\n".join(rows)


def _format_line(line: SourceLine) -> str:
    time = f"{line.critical_ns / US_NS:.2f} µs"
    return f"  {100 * line.share:3.0f} %  {time:>12}  {line.place}  {line.op} x{line.count}"
