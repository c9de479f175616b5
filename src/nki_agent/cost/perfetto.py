"""A Timeline as Chrome Trace JSON, which Perfetto and chrome://tracing load.

Law: one process for each core; in it one track for each engine and, for each DMA queue, as many as
its transfers overlap; slices of a track never overlap. Times are µs with ns digits. An engine's
slice ends where its next one begins, if that is earlier than its result. A slice that stands for
several iterations says for how many. Names and paths from the Program are cleaned; nothing else of
it is copied.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.cost.plan import Plan, Queue
from nki_agent.cost.timeline import Timeline
from nki_agent.isa.enums import Engine
from nki_agent.isa.signature import Signature
from nki_agent.program.records import Program

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
    Queue.SYNC: "sync",
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
    cores = timeline.cores.tolist()
    args = _describe_all(timeline, program)
    tracks, until = _lay_out(timeline, cores)
    starts, ends = timeline.start_ns.tolist(), timeline.end_ns.tolist()
    moves, numbers = timeline.move_ns.tolist(), timeline.nodes.tolist()
    plan_of, weights = timeline.plan_of.tolist(), timeline.weights.tolist()
    num_cores = max(1, timeline.num_cores)
    for core in range(num_cores):
        where = "one core" if num_cores == 1 else f"core {core}"
        title = f"{clean(program.kernel)} on {where}"
        yield _metadata("process_name", core, 0, {"name": title})
    for (core, track), name in sorted(_name_tracks(tracks, timeline, cores).items()):
        yield _metadata("thread_name", core, track, {"name": name})
        yield _metadata("thread_sort_index", core, track, {"sort_index": track})
    for index, node in enumerate(timeline.instructions):
        begin, end = _us(moves[index]), _us(until[index])
        stack = program.stack(node.stack)
        times = {} if weights[index] == 1 else {"stands_for": weights[index]}
        yield {
            "ph": "X",
            "pid": 1 + cores[index],
            "tid": tracks[index],
            "ts": begin,
            "dur": round(end - begin, 3),
            "name": program.signatures[node.signature].op,
            "args": {
                "source": str(stack[-1]) if stack else "",
                "instruction": numbers[index],
                "issued_us": _us(starts[index]),
                "result_us": _us(ends[index]),
                **times,
                **args[plan_of[index]],
            },
        }


def _describe_all(timeline: Timeline, program: Program) -> dict[int, dict[str, object]]:
    """What the slices of each plan show."""
    firsts: dict[int, int] = {}
    for node, plan in zip(timeline.instructions, timeline.plan_of.tolist(), strict=True):
        firsts.setdefault(plan, node.signature)
    return {
        plan: _describe(program.signatures[signature], timeline.plans[plan])
        for plan, signature in firsts.items()
    }


def _metadata(name: str, core: int, track: int, args: dict[str, object]) -> Event:
    return {"ph": "M", "pid": 1 + core, "tid": track, "name": name, "args": args}


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


def _lay_out(timeline: Timeline, cores: Sequence[int]) -> tuple[list[int], list[float]]:
    """The track of each instruction and the end of its slice."""
    starts, until = timeline.move_ns.tolist(), timeline.end_ns.tolist()
    tracks = [0] * len(cores)
    latest: dict[tuple[int, int], int] = {}
    open_tracks: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for index, (core, number) in enumerate(zip(cores, timeline.plan_of.tolist(), strict=True)):
        plan = timeline.plans[number]
        if plan.transfer is None:
            track = 1 + plan.queue
            if (core, track) in latest:
                earlier = latest[core, track]
                until[earlier] = min(until[earlier], starts[index])
            latest[core, track] = index
        else:
            ends = open_tracks.setdefault((core, plan.queue), [])
            if ends and ends[0][0] <= starts[index]:
                _, track = heapq.heappop(ends)
            else:
                track = DMA_TRACKS_FROM + TRACKS_PER_QUEUE * plan.queue + len(ends)
            heapq.heappush(ends, (until[index], track))
        tracks[index] = track
    return tracks, until


def _name_tracks(
    tracks: Sequence[int], timeline: Timeline, cores: Sequence[int]
) -> dict[tuple[int, int], str]:
    names: dict[tuple[int, int], str] = {}
    for track, core, number in zip(tracks, cores, timeline.plan_of.tolist(), strict=True):
        if (core, track) not in names:
            plan = timeline.plans[number]
            name = TRACK_NAMES[Queue(plan.queue)]
            if plan.engine is Engine.DMA:
                place = track - DMA_TRACKS_FROM - TRACKS_PER_QUEUE * plan.queue + 1
                issued = "" if name.startswith("DMA") else "DMA issued by "
                name = f"{issued}{name} {place}"
            names[core, track] = name
    return names
