"""When each instruction of a Program runs: engines and DMA queues in order, data when it is there.

Law: an engine starts its instructions in program order, each after the writes it reads (end of the
writer) and after the reads and writes it overwrites. A DMA waits in its queue, starts up while
others move data, then shares the DMA engines in program order. The same Program gives the same
Timeline, to the bit.
Approximations: docs/concepts/limits-of-the-cost-model.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.chip.spec import ChipSpec
from nki_agent.cost.conflicts import UNTRACKED, find_conflicts
from nki_agent.cost.critical import Limit, find_limit, walk_back
from nki_agent.cost.descriptors import ShortDescriptors, advise_on, find_short_descriptors
from nki_agent.cost.lane import Lane
from nki_agent.cost.plan import Plan, Queue, find_lanes, make_plans
from nki_agent.isa.enums import Engine, Memory
from nki_agent.program.records import Instruction, Program

NEVER = float("inf")
NOBODY = -1
"""Cause of an instruction that waits for nothing."""
ENGINES = tuple(Engine)
"""The engines by the numbers in `Timeline.engines`."""


class Placement(Protocol):
    """What the scheduler needs to know about addresses."""

    @property
    def reuses(self) -> Sequence[tuple[int, ...]]:
        """For each tensor the earlier tensors whose bytes it takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaTotals:
    """What the DMA engines moved."""

    read_bytes: int
    """Read from HBM."""
    written_bytes: int
    """Written to HBM."""
    payload_bytes: int
    """Moved, each transfer counted once."""
    transfers: int
    descriptors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A Program in time. Arrays hold one value an instruction, in program order."""

    latency_ns: float
    start_ns: NDArray[np.float64]
    """When its engine or queue takes it up."""
    move_ns: NDArray[np.float64]
    """The first byte of a DMA; the start of other instructions."""
    end_ns: NDArray[np.float64]
    """When the result can be read."""
    engines: NDArray[np.int8]
    """Who runs it, as an index into `ENGINES`; `dma` for every DMA."""
    causes: NDArray[np.int32]
    """The instruction that it waited for last, or -1."""
    busy_ns: Mapping[Engine, float]
    """Time in which an engine has work; for `dma` that of the busiest of the DMA engines."""
    dma: DmaTotals
    limit: Limit
    plans: tuple[Plan, ...]
    """What each signature costs."""
    short_descriptors: tuple[ShortDescriptors, ...]
    findings: tuple[Diagnostic, ...]
    """Advice on speed; nothing here makes a kernel wrong."""
    chip: ChipSpec

    @property
    def num_instructions(self) -> int:
        """Instructions that ran."""
        return len(self.start_ns)

    def engine(self, index: int) -> Engine:
        """Who runs an instruction."""
        return ENGINES[int(self.engines[index])]

    def utilisation(self, engine: Engine) -> float:
        """Share of the latency in which an engine has work, 0 to 1."""
        return self.busy_ns[engine] / self.latency_ns if self.latency_ns else 0.0


def schedule(program: Program, chip: ChipSpec, placement: Placement | None = None) -> Timeline:
    """Run a Program on a model of one core.

    The Program must have passed `program.validate.check_program`. Without a Placement no tensor
    waits for another's bytes. NotImplementedError for a body with loops.
    """
    body = require_unrolled(program)
    plans = make_plans(program.signatures, chip)
    scheduler = _Scheduler(program, body, plans, placement)
    scheduler.run()
    return scheduler.finish(chip)


def require_unrolled(program: Program) -> tuple[Instruction, ...]:
    """The instructions of core 0; NotImplementedError if the body holds anything else."""
    body = program.bodies[0] if program.bodies else ()
    instructions = tuple(node for node in body if isinstance(node, Instruction))
    if len(instructions) != len(body):
        raise NotImplementedError("the cost model schedules unrolled Programs only")
    return instructions


class _Scheduler:
    """The state of a run: what is free when, and the last access of each view."""

    def __init__(
        self,
        program: Program,
        body: tuple[Instruction, ...],
        plans: tuple[Plan, ...],
        placement: Placement | None,
    ) -> None:
        conflicts = find_conflicts(body, program.signatures)
        self.program, self.body, self.plans = program, body, plans
        self.views, self.near = conflicts.views, conflicts.near
        num_views = len(self.near)
        self.written_ns, self.writer = [0.0] * num_views, [NOBODY] * num_views
        self.read_ns, self.reader = [0.0] * num_views, [NOBODY] * num_views
        self.free_ns, self.last = [0.0] * len(Queue), [NOBODY] * len(Queue)
        self.descriptor_engine_ns = dict.fromkeys(ENGINES, 0.0)
        self.lanes = [Lane() for _ in find_lanes(plans)]
        self.ports = {Memory.SBUF: Lane(), Memory.PSUM: Lane()}
        self.sync = Lane()
        self.start: list[float] = []
        self.move: list[float] = []
        self.end: list[float] = []
        self.cause: list[int] = []
        self.handover = _Handover(placement.reuses) if placement is not None else None

    def run(self) -> None:
        """Place every instruction."""
        views, plans, position = self.views, self.plans, 0
        for index, node in enumerate(self.body):
            plan = plans[node.signature]
            touched = views[position : position + plan.num_tensors]
            position += plan.num_tensors
            ready, cause = self._find_ready(plan, touched)
            if self.handover is not None:
                ready, cause = self.handover.find_ready(plan, node, (ready, cause))
            queue = plan.queue
            if self.free_ns[queue] > ready:
                ready, cause = self.free_ns[queue], self.last[queue]
            self.last[queue] = index
            begin, move, release, end = self._issue(plan, ready)
            self.start.append(begin)
            self.move.append(move)
            self.end.append(end)
            self.cause.append(cause)
            self._record(plan, touched, index, (release, end))
            if self.handover is not None:
                self.handover.record(plan, node, index, (release, end))

    def _find_ready(self, plan: Plan, touched: list[int]) -> tuple[float, int]:
        """When the data is there and what it overwrites is done with, and who was last."""
        ready, cause = 0.0, NOBODY
        written_ns, writer, near = self.written_ns, self.writer, self.near
        for place in plan.reads:
            view = touched[place]
            if view != UNTRACKED:
                for other in near[view]:
                    if written_ns[other] > ready:
                        ready, cause = written_ns[other], writer[other]
        for place in plan.writes:
            view = touched[place]
            if view != UNTRACKED:
                for other in near[view]:
                    if self.read_ns[other] > ready:
                        ready, cause = self.read_ns[other], self.reader[other]
                    if written_ns[other] > ready and not self._in_order(plan, writer[other]):
                        ready, cause = written_ns[other], writer[other]
        return ready, cause

    def _in_order(self, plan: Plan, writer: int) -> bool:
        """Whether the earlier writer is on the same engine, which writes in program order."""
        earlier = self.plans[self.body[writer].signature]
        return plan.engine is earlier.engine and plan.transfer is None

    def _issue(self, plan: Plan, ready: float) -> tuple[float, float, float, float]:
        """Start, first byte, the time at which operands are read, and the end."""
        transfer, queue = plan.transfer, plan.queue
        if transfer is None:
            if plan.ports:
                ready = self._take_ports(plan, ready)
            release = ready + plan.interval_ns
            self.free_ns[queue] = release
            return ready, ready, release, ready + plan.latency_ns
        if transfer.issuer is Engine.SYNC:
            ready, self.free_ns[queue] = self.sync.fill(ready, plan.interval_ns)
        else:
            self.free_ns[queue] = ready + plan.interval_ns
        go = ready + plan.latency_ns
        if transfer.descriptor_engine_ns:
            made = max(ready, self.descriptor_engine_ns[transfer.issuer])
            made += transfer.descriptor_engine_ns
            self.descriptor_engine_ns[transfer.issuer] = made
            go = max(go, made)
        move, end, lanes = NEVER, go, self.lanes
        for lane, work in plan.lanes:
            begin, done = lanes[lane].fill(go, work)
            move = min(move, begin)
            end = max(end, done)
        return ready, move, end, end

    def _take_ports(self, plan: Plan, ready: float) -> float:
        """The first time at which every shared port is free; takes them."""
        ports = [self.ports[memory] for memory in plan.ports]
        begin = ready
        while True:
            moved = begin
            for port in ports:
                moved = port.find_gap(moved, plan.interval_ns)
            if moved == begin:
                break
            begin = moved
        for port in ports:
            port.fill(begin, plan.interval_ns)
        return begin

    def _record(
        self, plan: Plan, touched: list[int], index: int, times: tuple[float, float]
    ) -> None:
        release, end = times
        for place in plan.reads:
            view = touched[place]
            if view != UNTRACKED and release > self.read_ns[view]:
                self.read_ns[view], self.reader[view] = release, index
        for place in plan.writes:
            view = touched[place]
            if view != UNTRACKED and end > self.written_ns[view]:
                self.written_ns[view], self.writer[view] = end, index

    def finish(self, chip: ChipSpec) -> Timeline:
        """The Timeline of what was placed."""
        signatures = np.fromiter((n.signature for n in self.body), np.int64, len(self.body))
        numbers = np.array([ENGINES.index(p.engine) for p in self.plans] or [0], np.int8)
        start = np.array(self.start, np.float64)
        end = np.array(self.end, np.float64)
        engines, causes = numbers[signatures], np.array(self.cause, np.int32)
        latency = float(end.max(initial=0.0))
        busy = self._busy_ns(start, end, signatures)
        path = walk_back(start, end, causes)
        short = find_short_descriptors(self.program, self.plans, latency, chip)
        return Timeline(
            latency_ns=latency,
            start_ns=start,
            move_ns=np.array(self.move, np.float64),
            end_ns=end,
            engines=engines,
            causes=causes,
            busy_ns=busy,
            dma=_sum_dma(self.plans, signatures),
            limit=find_limit(latency, busy, [ENGINES[e] for e in engines[path.instructions]], path),
            plans=self.plans,
            short_descriptors=short,
            findings=tuple(advise_on(self.program, place, chip) for place in short),
            chip=chip,
        )

    def _busy_ns(
        self, start: NDArray[np.float64], end: NDArray[np.float64], signatures: NDArray[np.int64]
    ) -> dict[Engine, float]:
        busy = dict.fromkeys(ENGINES, 0.0)
        queues = np.array([p.queue for p in self.plans] or [0])[signatures]
        issue = np.array([p.interval_ns for p in self.plans] or [0.0])[signatures]
        is_dma = np.array([p.transfer is not None for p in self.plans] or [False])[signatures]
        until = np.where(is_dma, start + issue, end)
        for queue in Queue:
            chosen = np.flatnonzero(queues == queue)
            begin, stop = start[chosen], np.maximum.accumulate(until[chosen])
            begin[1:] = np.maximum(begin[1:], stop[:-1])
            busy[queue.engine] += float(np.maximum(stop - begin, 0.0).sum())
        busy[Engine.SYNC] = self.sync.busy_ns
        busy[Engine.DMA] = max((lane.busy_ns for lane in self.lanes), default=0.0)
        return busy


class _Handover:
    """Waits of tensors for the earlier owners of their bytes."""

    def __init__(self, reuses: Sequence[tuple[int, ...]]) -> None:
        self._reuses = reuses
        self._done: dict[int, tuple[float, int]] = {}
        self._free: dict[int, tuple[float, int]] = {}

    def find_ready(
        self, plan: Plan, node: Instruction, so_far: tuple[float, int]
    ) -> tuple[float, int]:
        """The later of `so_far` and the time at which the bytes of written tensors are free."""
        for place in plan.writes:
            tensor = node.tensors[place]
            owners = self._reuses[tensor]
            if owners:
                free = self._free.get(tensor)
                if free is None:
                    nothing = (0.0, NOBODY)
                    free = max(self._done.get(owner, nothing) for owner in owners)
                    self._free[tensor] = free
                so_far = max(so_far, free)
        return so_far

    def record(self, plan: Plan, node: Instruction, index: int, times: tuple[float, float]) -> None:
        """Note the last use of each tensor of an instruction."""
        done = self._done
        for time, places in zip(times, (plan.reads, plan.writes), strict=True):
            for place in places:
                tensor = node.tensors[place]
                known = done.get(tensor)
                if known is None or time > known[0]:
                    done[tensor] = (time, index)


def _sum_dma(plans: tuple[Plan, ...], signatures: NDArray[np.int64]) -> DmaTotals:
    counts = np.bincount(signatures, minlength=len(plans)).tolist()
    moved = [(n, p.transfer) for n, p in zip(counts, plans, strict=True) if p.transfer and n]
    return DmaTotals(
        read_bytes=sum(n * t.read_bytes for n, t in moved),
        written_bytes=sum(n * t.written_bytes for n, t in moved),
        payload_bytes=sum(n * t.payload_bytes for n, t in moved),
        transfers=sum(n for n, _ in moved),
        descriptors=sum(n * t.descriptors for n, t in moved),
    )
