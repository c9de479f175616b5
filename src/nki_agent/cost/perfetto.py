"""A Timeline as Chrome Trace JSON, which Perfetto and chrome://tracing load.

Law: one track for each engine and, for each DMA queue, as many as its transfers overlap; slices
of a track never overlap. Times are µs with ns digits. An engine's slice ends where its next one
begins, if that is earlier than its result. Names and paths from the Program are cleaned; nothing
else of it is copied.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.cost.plan import Plan, Queue
from nki_agent.cost.timeline import Timeline, require_unrolled
from nki_agent.isa.enums import Engine
from nki_agent.isa.signature import Signature
from nki_agent.program.records import Instruction, Program

PROCESS = 1
"""The one process of the trace: a core."""
US_NS = 1000
TRACK_NAMES = {
    Queue.TENSOR: "tensor",
    Queue.VECTOR: "vector",
    Queue.SCALAR: "scalar",
    Queue.GPSIMD: "gpsimd",
    Queue.LOAD: "DMA into SBUF",
    Queue.STORE: "DMA out of SBUF",
    Queue.HBM_COPY: "DMA inside HBM",
    Queue.SBUF_COPY: "DMA inside SBUF",
}
DMA_TRACKS_FROM = 100
"""Tracks of DMA queues are numbered from here, `TRACKS_PER_QUEUE` for each queue."""
TRACKS_PER_QUEUE = 10_000

Event = dict[str, object]


def write_trace(timeline: Timeline, program: Program, path: Path) -> None:
    """Write the trace; the parent folder must exist."""
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        file.write(b'{"displayTimeUnit":"ns","otherData":')
        file.write(encoder.encode(_about(timeline, program)))
        file.write(b',"traceEvents":[')
        for number, event in enumerate(_make_events(timeline, program)):
            file.write(b",\n" if number else b"\n")
            file.write(encoder.encode(event))
        file.write(b"\n]}\n")


def _about(timeline: Timeline, program: Program) -> dict[str, str]:
    return {
        "kernel": clean(program.kernel),
        "target": clean(program.target),
        "latency": f"{timeline.latency_ns / US_NS:.3f} µs",
        "limit": timeline.limit.text,
        "note": "a model of the chip, not a measurement",
    }


def _make_events(timeline: Timeline, program: Program) -> Iterator[Event]:
    body = require_unrolled(program)
    args = [_describe(s, p) for s, p in zip(program.signatures, timeline.plans, strict=True)]
    tracks, until = _lay_out(timeline, body)
    starts, ends = timeline.start_ns.tolist(), timeline.end_ns.tolist()
    moves = timeline.move_ns.tolist()
    yield _metadata("process_name", 0, {"name": f"{clean(program.kernel)} on one core"})
    for track, name in sorted(_name_tracks(tracks, timeline, body).items()):
        yield _metadata("thread_name", track, {"name": name})
        yield _metadata("thread_sort_index", track, {"sort_index": track})
    for index, node in enumerate(body):
        begin, end = _us(moves[index]), _us(until[index])
        stack = program.stack(node.stack)
        where = str(stack[-1]) if stack else ""
        yield {
            "ph": "X",
            "pid": PROCESS,
            "tid": tracks[index],
            "ts": begin,
            "dur": round(end - begin, 3),
            "name": program.signatures[node.signature].op,
            "args": {
                "source": where,
                "instruction": index,
                "issued_us": _us(starts[index]),
                "result_us": _us(ends[index]),
                **args[node.signature],
            },
        }


def _metadata(name: str, track: int, args: dict[str, object]) -> Event:
    return {"ph": "M", "pid": PROCESS, "tid": track, "name": name, "args": args}


def _us(time_ns: float) -> float:
    return round(time_ns / US_NS, 3)


def _describe(signature: Signature, plan: Plan) -> dict[str, object]:
    args: dict[str, object] = {}
    for operand in signature.operands:
        if operand.memory is not None:
            shape = list(operand.shape)
            args[operand.role] = f"{operand.dtype.value} {shape} {operand.memory.value}"
    if plan.transfer is not None:
        args["bytes"] = plan.transfer.payload_bytes
        args["descriptors"] = plan.transfer.descriptors
        args["dma_engines"] = plan.transfer.num_engines
    else:
        args["data_ns"] = round(plan.data_ns, 1)
    return args


def _lay_out(timeline: Timeline, body: Sequence[Instruction]) -> tuple[list[int], list[float]]:
    """The track of each instruction and the end of its slice."""
    starts, until = timeline.move_ns.tolist(), timeline.end_ns.tolist()
    tracks = [0] * len(body)
    latest: dict[int, int] = {}
    open_tracks: dict[int, list[tuple[float, int]]] = {}
    for index, node in enumerate(body):
        plan = timeline.plans[node.signature]
        if plan.transfer is None:
            track = 1 + plan.queue
            if track in latest:
                earlier = latest[track]
                until[earlier] = min(until[earlier], starts[index])
            latest[track] = index
        else:
            ends = open_tracks.setdefault(plan.queue, [])
            if ends and ends[0][0] <= starts[index]:
                _, track = heapq.heappop(ends)
            else:
                track = DMA_TRACKS_FROM + TRACKS_PER_QUEUE * plan.queue + len(ends)
            heapq.heappush(ends, (until[index], track))
        tracks[index] = track
    return tracks, until


def _name_tracks(
    tracks: Sequence[int], timeline: Timeline, body: Sequence[Instruction]
) -> dict[int, str]:
    names: dict[int, str] = {}
    for track, node in zip(tracks, body, strict=True):
        if track not in names:
            plan = timeline.plans[node.signature]
            name = TRACK_NAMES[Queue(plan.queue)]
            if plan.engine is Engine.DMA:
                number = track - DMA_TRACKS_FROM - TRACKS_PER_QUEUE * plan.queue + 1
                issued = "" if name.startswith("DMA") else "DMA issued by "
                name = f"{issued}{name} {number}"
            names[track] = name
    return names
