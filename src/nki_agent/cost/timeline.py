"""When each instruction of a Program runs: engines and DMA queues in order, data when it is there.

Law: `scheduler` says what waits for what. The two cores of a Program have engines, DMA engines and
a share of the HBM bandwidth of their own; they wait for each other at barriers and exchanges. The
same Program gives the same Timeline, to the bit.
Approximations: docs/concepts/limits-of-the-cost-model.md.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.chip.spec import ChipSpec
from nki_agent.cost.critical import Limit, Path, find_limit, walk_back
from nki_agent.cost.descriptors import ShortDescriptors, advise_on, find_short_descriptors
from nki_agent.cost.execution import Execution, Trips, execute
from nki_agent.cost.plan import Plan, Queue, make_plans
from nki_agent.cost.scheduler import NOBODY, OTHER_CORE, Placement, Scheduler
from nki_agent.cost.transfer import Moves
from nki_agent.isa.enums import Engine
from nki_agent.program.records import DynamicKind, Instruction, Loop, Program

ENGINES = tuple(Engine)
"""The engines by the numbers in `Timeline.engines`."""
Meeting = Generator[float, tuple[float, int], None]
Number = TypeVar("Number", bound=np.generic)


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
    """A Program in time.

    Arrays hold one value for each instruction that was run, core after core, in the order in which
    it issues them; where iterations of a loop were left out, one stands for several.
    """

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
    instructions: Sequence[Instruction]
    nodes: NDArray[np.int32]
    """Each one's number in its core's Program, loop bodies once."""
    cores: NDArray[np.int8]
    weights: NDArray[np.int64]
    """How many executions each stands for."""
    skipped_ns: NDArray[np.float64]
    """Time, up to each one, of iterations that were left out."""
    plan_of: NDArray[np.int32]
    """Which of `plans` each one follows."""
    busy_ns: Mapping[Engine, float]
    """Time in which an engine has work, on the busier core; for `dma`, of the busiest engine."""
    dma: DmaTotals
    limit: Limit
    plans: tuple[Plan, ...]
    """What each signature costs, then those of its uses with run-time offsets."""
    short_descriptors: tuple[ShortDescriptors, ...]
    findings: tuple[Diagnostic, ...]
    """Advice on speed; nothing here makes a kernel wrong."""
    chip: ChipSpec

    @property
    def num_instructions(self) -> int:
        """Executions, those of iterations that were left out too."""
        return int(self.weights.sum())

    @property
    def num_cores(self) -> int:
        """Cores that the Program runs on."""
        return int(self.cores.max(initial=0)) + 1

    @property
    def path(self) -> Path:
        """The chain of instructions that decides the latency."""
        return walk_back(
            self.start_ns,
            self.end_ns,
            self.causes,
            weights=self.weights,
            skipped_ns=self.skipped_ns,
        )

    def engine(self, index: int) -> Engine:
        """Who runs an instruction."""
        return ENGINES[int(self.engines[index])]

    def utilisation(self, engine: Engine) -> float:
        """Share of the latency in which an engine has work, 0 to 1."""
        return self.busy_ns[engine] / self.latency_ns if self.latency_ns else 0.0


def schedule(
    program: Program,
    chip: ChipSpec,
    placement: Placement | None = None,
    *,
    trips: Trips | None = None,
) -> Timeline:
    """Run a Program on a model of its cores.

    The Program must have passed `program.validate.check_program`. Without a Placement no tensor
    waits for another's bytes. `trips` holds how often each loop ran, by its number, all its entries
    together; a loop with run-time bounds that it leaves out counts as one iteration, with a
    finding.
    """
    executions = execute(program, trips)
    moved = _Moved(program)
    plan_of = [moved.number(execution) for execution in executions]
    plans = make_plans(program.signatures, chip, moved.rows)
    schedulers = [
        Scheduler(program, execution, plans, numbers, placement=placement, chip=chip)
        for execution, numbers in zip(executions, plan_of, strict=True)
    ]
    _run_together(schedulers)
    return _finish(program, schedulers, chip)


class _Moved:
    """Uses of signatures with run-time offsets, which have plans of their own."""

    def __init__(self, program: Program) -> None:
        self._operands = [
            [o.role for o in s.operands if not o.is_immediate] for s in program.signatures
        ]
        self._numbers: dict[tuple[int, tuple[tuple[int, DynamicKind], ...]], int] = {}

    @property
    def rows(self) -> list[tuple[int, Moves]]:
        """Signature and moves of each of those plans."""
        return [
            (signature, tuple((self._operands[signature][place], kind) for place, kind in moved))
            for signature, moved in self._numbers
        ]

    def number(self, execution: Execution) -> list[int]:
        """The plan of each instruction."""
        numbers = [node.signature for node in execution.instructions]
        for row, node in enumerate(execution.instructions):
            if node.detail is not None and node.detail.dynamic:
                moved = tuple([(d.operand, d.kind) for d in node.detail.dynamic])
                number = self._numbers.setdefault((node.signature, moved), len(self._numbers))
                numbers[row] = len(self._operands) + number
        return numbers


def _run_together(schedulers: Sequence[Scheduler]) -> None:
    """Run every core; where all that still run wait to meet, they go on from the latest time."""
    runs = {core: scheduler.run() for core, scheduler in enumerate(schedulers)}
    waiting: dict[int, float] = {}
    for core in list(runs):
        _resume(runs, waiting, core, None)
    while waiting:
        latest = max(waiting, key=lambda core: (waiting[core], -core))
        met = waiting[latest]
        at = len(schedulers[latest].end)
        for core in list(waiting):
            del waiting[core]
            _resume(runs, waiting, core, (met, NOBODY if core == latest else at))


def _resume(
    runs: dict[int, Meeting], waiting: dict[int, float], core: int, met: tuple[float, int] | None
) -> None:
    try:
        waiting[core] = next(runs[core]) if met is None else runs[core].send(met)
    except StopIteration:
        del runs[core]


def _finish(program: Program, schedulers: Sequence[Scheduler], chip: ChipSpec) -> Timeline:
    """The Timeline of what was placed."""
    parts = [_Part(s) for s in schedulers]
    plans = schedulers[0].plans
    plan_of = _join([p.plan_of for p in parts], np.int32)
    weights = _join([p.weights for p in parts], np.int64)
    start, end = (_join([getattr(p, n) for p in parts], np.float64) for n in ("start", "end"))
    skipped = _join([p.skipped for p in parts], np.float64)
    numbers = np.array([ENGINES.index(p.engine) for p in plans] or [0], np.int8)
    engines, causes = numbers[plan_of], _join_causes(parts)
    latency = float(end.max(initial=0.0))
    busy = {engine: max((p.busy_ns[engine] for p in parts), default=0.0) for engine in ENGINES}
    path = walk_back(start, end, causes, weights=weights, skipped_ns=skipped)
    instructions = parts[0].body if len(parts) == 1 else [i for p in parts for i in p.body]
    executed = zip(instructions, plan_of.tolist(), weights.tolist(), strict=True)
    short = find_short_descriptors(program, plans, executed, latency, chip)
    assumed = {n: loop for s in schedulers for n, loop in s.execution.assumed.items()}
    findings = [_assumed_once(program, loop) for loop in assumed.values()]
    return Timeline(
        latency_ns=latency,
        start_ns=start,
        move_ns=_join([p.move for p in parts], np.float64),
        end_ns=end,
        engines=engines,
        causes=causes,
        instructions=instructions,
        nodes=_join([p.nodes for p in parts], np.int32),
        cores=np.repeat(np.arange(len(parts), dtype=np.int8), [len(p.body) for p in parts]),
        weights=weights,
        skipped_ns=skipped,
        plan_of=plan_of,
        busy_ns=busy,
        dma=_sum_dma(plans, plan_of, weights),
        limit=find_limit(latency, busy, [ENGINES[e] for e in engines[path.instructions]], path),
        plans=plans,
        short_descriptors=short,
        findings=(*findings, *(advise_on(program, place, chip) for place in short)),
        chip=chip,
    )


class _Part:
    """One core's run as arrays."""

    def __init__(self, scheduler: Scheduler) -> None:
        execution = scheduler.execution
        self.body = execution.instructions
        count = len(self.body)
        starts, bases = np.array([(0, 0.0), *scheduler.bases]).T
        self.skipped = bases[np.searchsorted(starts, np.arange(count), side="right") - 1]
        self.plan_of = np.array(scheduler.plan_of, np.int32)
        self.weights = np.array(execution.weights, np.int64)
        self.nodes = np.array(execution.numbers, np.int32)
        self.causes = np.array(scheduler.cause, np.int32)
        local_start, local_end = np.array(scheduler.start), np.array(scheduler.end)
        self.busy_ns = self._busy_ns(scheduler, local_start, local_end)
        self.start, self.end = local_start + self.skipped, local_end + self.skipped
        for index, more in scheduler.stretched:
            self.end[index] += more
        self.move = np.array(scheduler.move) + self.skipped

    def _busy_ns(
        self, scheduler: Scheduler, start: NDArray[np.float64], end: NDArray[np.float64]
    ) -> dict[Engine, float]:
        plans, busy = scheduler.plans, dict.fromkeys(ENGINES, 0.0)
        queues = np.array([p.queue for p in plans] or [0])[self.plan_of]
        issue = np.array([p.interval_ns for p in plans] or [0.0])[self.plan_of]
        is_dma = np.array([p.transfer is not None for p in plans] or [False])[self.plan_of]
        until = np.where(is_dma, start + issue, end)
        sync = scheduler.sync.busy_ns
        for queue in Queue:
            chosen = np.flatnonzero(queues == queue)
            begin, stop = start[chosen], np.maximum.accumulate(until[chosen])
            begin[1:] = np.maximum(begin[1:], stop[:-1])
            work = np.maximum(stop - begin, 0.0) * self.weights[chosen]
            if queue.engine is not Engine.SYNC:
                busy[queue.engine] += float(work.sum())
            elif queue is Queue.SYNC:
                sync += float(work.sum())
            else:
                sync += float((issue[chosen] * (self.weights[chosen] - 1)).sum())
        busy[Engine.SYNC] = sync
        lanes = zip(scheduler.lanes, scheduler.lane_extra_ns, strict=True)
        busy[Engine.DMA] = max((lane.busy_ns + extra for lane, extra in lanes), default=0.0)
        return busy


def _join(arrays: Sequence[NDArray[Number]], dtype: type[Number]) -> NDArray[Number]:
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)


def _join_causes(parts: Sequence[_Part]) -> NDArray[np.int32]:
    """Causes as indices over both cores."""
    first = np.cumsum([0, *(len(p.body) for p in parts)])
    found = []
    for core, part in enumerate(parts):
        own = np.where(part.causes >= 0, part.causes + first[core], part.causes)
        other = OTHER_CORE - part.causes + first[len(parts) - 1 - core]
        found.append(np.where(part.causes <= OTHER_CORE, other, own))
    return _join(found, np.int32)


def _assumed_once(program: Program, loop: Loop) -> Diagnostic:
    return Diagnostic(
        code="NK602",
        severity=Severity.ADVICE,
        what="the latency counts one iteration of a loop whose bounds are known at run time only",
        where=program.stack(loop.stack),
        hint="run the kernel: a profile of a run counts the loop as often as it ran",
    )


def _sum_dma(
    plans: tuple[Plan, ...], plan_of: NDArray[np.int32], weights: NDArray[np.int64]
) -> DmaTotals:
    counts = np.zeros(len(plans), np.int64)
    np.add.at(counts, plan_of, weights)
    moved = [
        (n, p.transfer) for n, p in zip(counts.tolist(), plans, strict=True) if p.transfer and n
    ]
    return DmaTotals(
        read_bytes=sum(n * t.read_bytes for n, t in moved),
        written_bytes=sum(n * t.written_bytes for n, t in moved),
        payload_bytes=sum(n * t.payload_bytes for n, t in moved),
        transfers=sum(n for n, _ in moved),
        descriptors=sum(n * t.descriptors for n, t in moved),
    )
