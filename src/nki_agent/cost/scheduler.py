"""Runs one core: what is free when, and the last access of each view.

Law: an engine starts its instructions in program order, each after the writes it reads (end of the
writer) and after the reads and writes it overwrites, after what `depends_on` names, and inside of
`no_reorder` after all that came before on other engines. A DMA waits in its queue, starts up while
others move data, then shares the DMA engines in program order. Every engine of a run-time loop pays
for each iteration, and waits for registers that say whether there is one.
Times are local: what jumps over iterations adds to `base_ns` and leaves all of them alone.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from nki_agent.chip.spec import ChipSpec
from nki_agent.cost.conflicts import UNTRACKED, find_conflicts
from nki_agent.cost.durations import clock_ghz
from nki_agent.cost.execution import ANY_ORDER, Enter, Execution, Jump, Leave, Run, Turn
from nki_agent.cost.lane import Lane
from nki_agent.cost.plan import Plan, Queue, find_lanes
from nki_agent.isa.enums import Engine, Memory
from nki_agent.program.records import Instruction, Loop, Program, walk
from nki_agent.program.registers import register_places

NEVER = float("inf")
NOBODY = -1
"""Cause of an instruction that waits for nothing."""
OTHER_CORE = -2
"""Cause `OTHER_CORE - i` is instruction i of the other core."""
SETTLED = 2
"""Iterations over which the length of those that are left out is measured."""

Moment = tuple[float, int]
"""A time in ns, and the instruction that makes it so."""
START: Moment = (0.0, NOBODY)


class Placement(Protocol):
    """What the scheduler needs to know about addresses."""

    @property
    def reuses(self) -> Sequence[tuple[int, ...]]:
        """For each tensor the earlier tensors whose bytes it takes over."""


class Scheduler:
    """The state of one core's run."""

    def __init__(
        self,
        program: Program,
        execution: Execution,
        plans: tuple[Plan, ...],
        plan_of: Sequence[int],
        *,
        placement: Placement | None,
        chip: ChipSpec,
    ) -> None:
        """Nothing has run; `plan_of` numbers the plan of each of the execution's instructions."""
        self.program, self.execution = program, execution
        self.body, self.plans, self.plan_of = execution.instructions, plans, plan_of
        num_lanes = len(find_lanes(plans))
        conflicts = find_conflicts(
            self.body, program.signatures, tensors=program.tensors, moved=execution.moved
        )
        self.views, self.near = conflicts.views, conflicts.near
        num_views = len(self.near)
        self.written_ns, self.writer = [0.0] * num_views, [NOBODY] * num_views
        self.read_ns, self.reader = [0.0] * num_views, [NOBODY] * num_views
        self.free_ns, self.last = [0.0] * len(Queue), [NOBODY] * len(Queue)
        self.descriptor_engine_ns = dict.fromkeys(Engine, 0.0)
        self.lanes = [Lane() for _ in range(num_lanes)]
        self.ports = {Memory.SBUF: Lane(), Memory.PSUM: Lane()}
        self.sync = Lane()
        self.start: list[float] = []
        self.move: list[float] = []
        self.end: list[float] = []
        self.cause: list[int] = []
        self.base_ns = 0.0
        """True time of local time 0."""
        self.bases: list[tuple[int, float]] = []
        """From which instruction on which base holds."""
        self.stretched: list[tuple[int, float]] = []
        """Instructions that end so much later, for iterations left out after them."""
        self.lane_extra_ns = [0.0] * num_lanes
        """Work of iterations that were not run."""
        self._loops = _Loops(self, chip)
        self._registers: dict[int, Moment] = {}
        self._places = [register_places(s) for s in program.signatures]
        self._named = {
            n for node in self.body if node.detail is not None for n in node.detail.after
        }
        self._ends: dict[int, Moment] = {}
        self._position = 0
        self.front_ns = 0.0
        """The latest end so far."""
        self._scope = ANY_ORDER
        self._scope_ends: dict[int, Moment] = {}
        self._handover = None
        if placement is not None:
            reuses = _round_loops(program, placement.reuses)
            self._handover = _Handover(reuses, keeps=program.is_flat)

    def run(self) -> Generator[float, tuple[float, int], None]:
        """Place every instruction.

        Yields the true time at which the core is ready to meet the other one, and takes when both
        are, with the other's instruction where that one is later.
        """
        for step in self.execution.steps:
            match step:
                case Run():
                    yield from self._run(step)
                case Enter():
                    self._loops.enter(step.loop)
                case Turn():
                    self._loops.turn(step.loop, is_first=step.is_first)
                case Jump():
                    self._loops.jump(step.iterations)
                case Leave():
                    self._loops.leave()

    def _run(self, step: Run) -> Generator[float, tuple[float, int], None]:
        views, plans, plan_of, body = self.views, self.plans, self.plan_of, self.body
        handover, named = self._handover, bool(self._named)
        position = self._position
        for index in range(step.start, step.stop):
            node, plan = body[index], plans[plan_of[index]]
            touched = views[position : position + plan.num_tensors]
            position += plan.num_tensors
            ready, cause = self._find_ready(plan, touched)
            if handover is not None:
                ready, cause = handover.find_ready(plan, node, (ready, cause))
            queue = plan.queue
            if step.scope or node.detail is not None:
                ready, cause = max((ready, cause), self._find_asked(step.scope, queue, node))
            if self.free_ns[queue] > ready:
                ready, cause = self.free_ns[queue], self.last[queue]
            if plan.meets:
                met, other = yield ready + self.base_ns
                ready = met - self.base_ns
                cause = cause if other == NOBODY else OTHER_CORE - other
            self.last[queue] = index
            begin, move, release, end = self._issue(plan, ready)
            self.start.append(begin)
            self.move.append(move)
            self.end.append(end)
            self.cause.append(cause)
            self._record(plan, touched, index, (release, end))
            if handover is not None:
                handover.record(plan, node, index, (release, end))
            if named or step.scope or node.detail is not None:
                self._note(step.scope, queue, node, (end, index))
        self._position = position
        self.front_ns = max(self.front_ns, max(self.end[step.start : step.stop], default=0.0))

    def _find_ready(self, plan: Plan, touched: list[int]) -> Moment:
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
        earlier = self.plans[self.plan_of[writer]]
        return plan.engine is earlier.engine and plan.transfer is None

    def _find_asked(self, scope: int, queue: int, node: Instruction) -> Moment:
        """When registers, instructions that a detail names, and a scope's other queues are done."""
        times = [START]
        if node.detail is not None:
            detail = node.detail
            reads = [detail.registers[p] for p in self._places[node.signature][0]]
            reads += [d.register for d in detail.dynamic if d.register is not None]
            times += [self._registers.get(r, START) for r in reads]
            times += [self._ends.get(n, START) for n in detail.after]
        if scope != ANY_ORDER:
            if scope != self._scope:
                self._scope, self._scope_ends = scope, {}
            times += [end for other, end in self._scope_ends.items() if other != queue]
        return max(times)

    def _note(self, scope: int, queue: int, node: Instruction, moment: Moment) -> None:
        """Remember what later instructions may ask for."""
        if scope != ANY_ORDER:
            self._scope_ends[queue] = max(self._scope_ends.get(queue, START), moment)
        if node.detail is not None:
            for place in self._places[node.signature][1]:
                self._registers[node.detail.registers[place]] = moment
        number = self.execution.numbers[moment[1]]
        if number in self._named:
            self._ends[number] = moment

    def wait_in(self, queues: Sequence[int], ready: Moment, extra_ns: Sequence[float]) -> None:
        """Let queues wait for a time, and then spend some of their own."""
        for queue, extra in zip(queues, extra_ns, strict=True):
            if ready[0] > self.free_ns[queue]:
                self.free_ns[queue], self.last[queue] = ready
            self.free_ns[queue] += extra

    def register(self, number: int | None) -> Moment:
        """When a register has its value."""
        return START if number is None else self._registers.get(number, START)

    def set_register(self, number: int, moment: Moment) -> None:
        """Note when a loop's own register has its value."""
        self._registers[number] = moment

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


class _Open:
    """A loop that is being run."""

    def __init__(self, queues: Sequence[int], front_ns: float) -> None:
        self.queues = queues
        self.fronts = [front_ns]
        self.first = 0
        """The first instruction of the iteration."""
        self.lane_ns: list[float] = []
        """Work of each lane at the start of the iteration."""


class _Loops:
    """Waits and costs of loops, and what stands for iterations that are not run."""

    def __init__(self, scheduler: Scheduler, chip: ChipSpec) -> None:
        self._scheduler = scheduler
        self._extra_ns = [chip.loop_iteration_cycles / clock_ghz(q.engine, chip) for q in Queue]
        self._queues: dict[int, Sequence[int]] = {}
        self._open: list[_Open] = []

    def enter(self, loop: Loop) -> None:
        """Wait for the registers of the bounds."""
        scheduler = self._scheduler
        queues = self._queues_of(loop)
        self._open.append(_Open(queues, self._true_front()))
        named = (loop.lower_register, loop.upper_register, loop.test)
        ready = max(scheduler.register(r) for r in named)
        scheduler.wait_in(queues, ready, [0.0] * len(queues))
        scheduler.set_register(loop.index, ready)

    def _queues_of(self, loop: Loop) -> Sequence[int]:
        known = self._queues.get(loop.number)
        if known is None:
            plans = self._scheduler.plans
            signatures = {n.signature for n in walk(loop.body)}
            known = self._queues[loop.number] = sorted({plans[s].queue for s in signatures})
        return known

    def turn(self, loop: Loop, *, is_first: bool) -> None:
        """Start an iteration."""
        here, scheduler = self._open[-1], self._scheduler
        if not is_first:
            here.fronts.append(self._true_front())
        here.first = len(scheduler.end)
        here.lane_ns = self._lane_work()
        ready = START if is_first else scheduler.register(loop.next)
        scheduler.wait_in(here.queues, ready, [self._extra_ns[q] for q in here.queues])
        scheduler.set_register(loop.index, ready)

    def jump(self, iterations: int) -> None:
        """Let iterations pass that take as long as the latest ones."""
        here, scheduler = self._open[-1], self._scheduler
        fronts = [*here.fronts[-SETTLED:], self._true_front()]
        over = min(SETTLED, len(fronts) - 1)
        skipped = iterations * (fronts[-1] - fronts[-1 - over]) / over
        ends = scheduler.end[here.first :]
        if len(here.fronts) == 1 and ends:
            # No iteration follows that could end later: the one that ran lasts so much longer.
            scheduler.stretched.append((here.first + ends.index(max(ends)), skipped))
        scheduler.base_ns += skipped
        scheduler.bases.append((len(scheduler.end), scheduler.base_ns))
        for number, work in enumerate(self._lane_work()):
            scheduler.lane_extra_ns[number] += iterations * (work - here.lane_ns[number])

    def _true_front(self) -> float:
        return self._scheduler.front_ns + self._scheduler.base_ns

    def _lane_work(self) -> list[float]:
        """Work of each lane so far, that of left-out iterations too."""
        scheduler = self._scheduler
        lanes = zip(scheduler.lanes, scheduler.lane_extra_ns, strict=True)
        return [lane.busy_ns + extra for lane, extra in lanes]

    def leave(self) -> None:
        """End a loop."""
        self._open.pop()


def _round_loops(program: Program, reuses: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
    """In a loop, the first owner of some bytes also waits for those after it, of the last turn."""
    if program.is_flat:
        return reuses
    tensors = program.tensors
    wider = list(reuses)
    first: dict[int, tuple[int, ...]] = {}
    for tensor, owners in enumerate(reuses):
        scope = tensors[tensor].scope
        inside = [o for o in owners if scope and tensors[o].scope == scope]
        firsts = tuple(sorted({f for o in inside for f in first.get(o, (o,))}))[:OWNERS_MAX]
        if firsts:
            first[tensor] = firsts
        for owner in firsts:
            wider[owner] = (*wider[owner], tensor)
    return wider


OWNERS_MAX = 4
"""First owners of one piece of memory that are looked after."""


class _Handover:
    """Waits of tensors for the earlier owners of their bytes."""

    def __init__(self, reuses: Sequence[tuple[int, ...]], *, keeps: bool) -> None:
        """With `keeps` a tensor takes its bytes over once; else in each iteration anew."""
        self._reuses = reuses
        self._keeps = keeps
        self._done: dict[int, Moment] = {}
        self._free: dict[int, Moment] = {}

    def find_ready(self, plan: Plan, node: Instruction, so_far: Moment) -> Moment:
        """The later of `so_far` and the time at which the bytes of written tensors are free."""
        for place in plan.writes:
            tensor = node.tensors[place]
            owners = self._reuses[tensor]
            if owners:
                free = self._free.get(tensor)
                if free is None:
                    free = max(self._done.get(owner, START) for owner in owners)
                    if self._keeps:
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
