"""Turns the instructions of a Program into calls.

Equal instructions on equal buffers share their calls, so an unrolled loop whose tiles take turns in
the same buffers is bound once. A plan is made once for each signature and layout of its tensors. A
loop's body is compiled once. What is not known before a run, run-time offsets and what a matmul in
a loop adds to, is bound in the run.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import NoReturn

import msgspec
import numpy as np

from nki_agent.base.errors import KernelError
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.declaration import Call
from nki_agent.isa.table import TABLE
from nki_agent.program.overlap import find_form
from nki_agent.program.records import (
    DynamicKind,
    Guard,
    Instruction,
    Loop,
    Node,
    Program,
    Scope,
)
from nki_agent.program.validate import read_positions, written_positions
from nki_agent.sim.blocks import Block, Collective, Core, Meeting, Repeat, Straight
from nki_agent.sim.calls import Calls, Checked
from nki_agent.sim.collective import COLLECTIVES, Parcel
from nki_agent.sim.forms import Form
from nki_agent.sim.meeting import MEETINGS, add_meeting
from nki_agent.sim.moves import MovingParts, make_moving
from nki_agent.sim.moving import Binder, BoundForms, Moving, Offsets
from nki_agent.sim.order import find_order, find_spans
from nki_agent.sim.plan import Bound, Plan, refuse
from nki_agent.sim.psum import Mask, StartedElements, Write
from nki_agent.sim.sequencer import Sequencer
from nki_agent.sim.sharing import Access, Watch
from nki_agent.sim.site import Machine, Site
from nki_agent.sim.storage import Fill, Place
from nki_agent.sim.table import HANDLERS
from nki_agent.sim.tenancy import Tenancy
from nki_agent.sim.undecided import find_undecided

BOUNDS_MAX = 200_000
"""Bound instructions kept to be found again; their keys take memory."""
STEP_ELEMS = 2**12
"""An instruction counts as one step, and as one more for so many elements of an operand."""
DEAR = frozenset({"activation", "activation_reduce"})
DEAR_STEP_ELEMS = 2**10
"""Functions take NumPy up to thirty times as long as sums do."""


class Compiler:
    """One compilation; `compile` fills `cores` and `tenancy`."""

    def __init__(
        self, program: Program, chip: ChipSpec, *, memory_bytes_max: int, rank: int = 0
    ) -> None:
        """Look at the whole Program, which runs as this rank."""
        self.program = program
        self.rank = rank
        self.order = find_order(program)
        self.spans = find_spans(program, self.order)
        self.forms = [Form.of(Call(TABLE[s.op], s, chip)) for s in program.signatures]
        self.undecided = find_undecided(program, self.order, self.forms)
        self.tenancy = Tenancy(program, self.order, self.spans, memory_bytes_max=memory_bytes_max)
        self.twins = _find_twins(program)
        self.cores: list[Core] = []

    def compile(self) -> None:
        """Place tensors and bind every instruction; KernelError where that cannot be done."""
        with _collector_paused(), np.errstate(all="ignore"):
            self.tenancy.settle(self.forms)
            self.tenancy.prologue += self.undecided.clears(None)
            for number, nodes in enumerate(self.program.bodies):
                self.tenancy.start_core()
                self.cores.append(_CoreCompiler(self, number).compile(nodes))


class _Draft:
    """A block in the making: finished parts, and the straight one that is open."""

    def __init__(self, fills: Sequence[Fill] = ()) -> None:
        self.parts: list[Straight | Repeat | Meeting] = []
        self._start(fills)

    def _start(self, fills: Sequence[Fill]) -> None:
        self.calls, self.steps = Calls(), 0
        self.accesses: list[Access] = []
        self.add_all(fills)

    def add_all(self, fills: Sequence[Fill]) -> None:
        for fill in fills:
            self.calls.add(fill)

    def add_part(self, part: Repeat | Meeting) -> None:
        self.flush()
        self.parts.append(part)

    def flush(self) -> None:
        if self.calls.runs:
            self.parts.append(Straight(self.calls, self.steps, tuple(self.accesses)))
            self._start(())


class _CoreCompiler:
    """Compiles the body of one core."""

    def __init__(self, shared: Compiler, number: int) -> None:
        self._shared = shared
        self._program, self._order = shared.program, shared.order
        self._tenancy, self._forms = shared.tenancy, shared.forms
        self._undecided = shared.undecided
        self._start = self._next = shared.order.starts[number]
        self._started: dict[int, StartedElements] = {}
        self._plans: dict[object, Plan] = {}
        self._bounds: dict[object, Bound] = {}
        self._machine = Machine(Sequencer(shared.program.registers, rank=shared.rank))
        self._watch = Watch(number, shared.spans.shared)
        self._moving: dict[int, Moving] = {}
        self._bound_forms = BoundForms()
        self._parts = MovingParts(
            program=shared.program,
            sequencer=self._machine.sequencer,
            make_room=shared.tenancy.make_room,
            watch=self._watch,
        )
        signatures = enumerate(shared.program.signatures)
        self._meetings = frozenset(i for i, s in signatures if s.op in MEETINGS)
        counted = shared.order.paths is not None
        self._steps = [_count_steps(form) for form in shared.forms] if counted else None

    def compile(self, nodes: Sequence[Node]) -> Core:
        """The whole body."""
        block = self._compile_block(nodes, ())
        return Core(block, self._machine, self._watch, self._moving)

    def _compile_block(self, nodes: Sequence[Node], fills: Sequence[Fill]) -> Block:
        draft = _Draft(fills)
        self._add_nodes(draft, nodes)
        draft.flush()
        return tuple(draft.parts)

    def _add_nodes(self, draft: _Draft, nodes: Sequence[Node]) -> None:
        if not self._meetings and set(map(type, nodes)) == {Instruction}:
            self._add_straight(draft, nodes)  # type: ignore[arg-type]
            return
        for is_straight, group in groupby(nodes, self._is_straight):
            if is_straight:
                self._add_straight(draft, list(group))  # type: ignore[arg-type]
                continue
            for node in group:
                match node:
                    case Instruction():
                        self._add_meeting(draft, node)
                    case Loop():
                        self._add_loop(draft, node)
                    case Scope():
                        self._add_nodes(draft, node.body)
                    case Guard():
                        raise AssertionError("guards are of the older dialect")

    def _is_straight(self, node: Node) -> bool:
        return isinstance(node, Instruction) and node.signature not in self._meetings

    def _add_loop(self, draft: _Draft, loop: Loop) -> None:
        draft.add_all(self._tenancy.open_before(loop.number))
        body = self._compile_block(loop.body, self._undecided.clears(loop.number))
        draft.add_part(Repeat(loop, body))
        for tensor in self._tenancy.close_behind(loop.number):
            self._started.pop(tensor, None)

    def _add_meeting(self, draft: _Draft, node: Instruction) -> None:
        index, self._next = self._next, self._next + 1
        form = self._forms[node.signature]
        draft.add_all(self._tenancy.open_new(node, form))
        dynamic = node.detail.dynamic if node.detail is not None else ()
        is_collective = form.call.signature.op in COLLECTIVES
        if any(d.kind is not DynamicKind.SCALAR or not is_collective for d in dynamic):
            self._refuse(node, f"a run-time offset of `{form.call.declaration.name}`")
        draft.flush()
        if is_collective:
            draft.parts.append(self._make_collective(node, form, index))
        else:
            add_meeting(draft.parts, node, form, self._bind(node, Write.FRESH, None))
        self._close(node, index)

    def _make_collective(self, node: Instruction, form: Form, index: int) -> Collective:
        accesses = tuple(self._find_accesses([node])) if self._watch.tensors else ()
        if _identity(node) in self._shared.twins:
            # Both cores write the same values, and each waits for its own.
            accesses = tuple(a for a in accesses if not a.is_write)
        return Collective(
            number=index - self._start,
            call=form.call,
            parcel=Parcel(self._make_finder(node, index)),
            accesses=accesses,
            steps=_count_steps(form),
            stack=node.stack,
        )

    def _make_finder(self, node: Instruction, index: int) -> Callable[[], Bound]:
        """What gives a collective's calls each time that it is met."""
        if node.detail is None or not node.detail.dynamic:
            bound = self._bind(node, Write.FRESH, None)
            return lambda: bound
        held: list[Bound] = []

        def hold(bind: Binder) -> Binder:
            def bind_later(offsets: Offsets) -> Bound:
                held[:] = [bind(offsets)]
                return (), (), None

            return bind_later

        moving = self._make_moving(node, index, hold)

        def find() -> Bound:
            moving.run()
            return held[0]

        return find

    def _close(self, node: Instruction, index: int) -> None:
        for tensor in node.tensors:
            if self._tenancy.last[tensor] == index and self._tenancy.close(tensor):
                self._started.pop(tensor, None)

    def _add_straight(self, draft: _Draft, nodes: Sequence[Instruction]) -> None:
        tenancy, bounds, forms = self._tenancy, self._bounds, self._forms
        numbers, last = tenancy.numbers, tenancy.last
        calls, start = draft.calls, self._next
        all_runs, all_args = calls.runs, calls.args
        for index, node in enumerate(nodes, start):
            tensors = node.tensors
            held = tuple([numbers[t] for t in tensors])
            if 0 in held:
                draft.add_all(tenancy.open_new(node, forms[node.signature]))
                held = tuple([numbers[t] for t in tensors])
            # 0.0 and -0.0 are equal as keys.
            immediates = node.immediates
            apart = repr(immediates) if 0 in immediates else immediates
            key = (node.signature, held, node.offsets, apart, node.detail)
            bound = bounds.get(key)
            if bound is None:
                bound = self._bind_first(node, key, index)
            runs, args, with_checks = bound
            if with_checks is not None:
                calls.checked.append(Checked(len(all_runs), len(runs), *with_checks, node.stack))
            all_runs += runs
            all_args += args
            for tensor in tensors:
                if last[tensor] == index and tenancy.close(tensor):
                    self._started.pop(tensor, None)
        self._next = start + len(nodes)
        if self._steps is not None:
            steps = self._steps
            draft.steps += sum([steps[node.signature] for node in nodes])
        if self._watch.tensors:
            draft.accesses += self._find_accesses(nodes)

    def _find_accesses(self, nodes: Sequence[Instruction]) -> Iterator[Access]:
        """What instructions touch of shared tensors, but for what `Moving` reports itself."""
        shared = self._watch.tensors
        for node in nodes:
            if not any(t in shared for t in node.tensors):
                continue
            form = self._forms[node.signature]
            signature = form.call.signature
            moved = {d.operand for d in node.detail.dynamic} if node.detail is not None else set()
            for is_write, positions in (
                (True, written_positions(signature)),
                (False, read_positions(signature)),
            ):
                for position in positions:
                    tensor, offset = node.tensors[position], node.offsets[position]
                    if tensor in shared and position not in moved:
                        assert isinstance(offset, int)
                        shape = find_form(form.operands[position])
                        yield Access(tensor, is_write, shape, offset, node.stack)

    def _bind_first(self, node: Instruction, key: tuple[object, ...], index: int) -> Bound:
        """Bind an instruction that was not met before; a matmul never counts as met before."""
        form = self._forms[node.signature]
        detail = node.detail
        is_undecided = form.is_matmul and node.tensors[0] in self._undecided.tensors
        if is_undecided or (detail is not None and (detail.dynamic or detail.registers)):
            return self._bind_moving(node, index)
        write, mask = Write.FRESH, None
        if form.is_matmul:
            write, mask = self._judge_matmul(node)
            key = (*key, write)
            bound = self._bounds.get(key) if mask is None else None
            if bound is not None:
                return bound
        bound = self._bind(node, write, mask)
        if mask is None:
            if len(self._bounds) >= BOUNDS_MAX:
                self._bounds.clear()
            self._bounds[key] = bound
        return bound

    def _judge_matmul(self, node: Instruction) -> tuple[Write, Mask | None]:
        form, index, offset = self._forms[node.signature], node.tensors[0], node.offsets[0]
        assert isinstance(offset, int)
        started = self._started.get(index)
        if started is None:
            started = self._started[index] = StartedElements(self._program.tensors[index])
        accumulate = form.call.attribute("accumulate")
        return started.write((node.signature, offset), form.operands[0], accumulate=accumulate)

    def _places(self, node: Instruction) -> list[Place]:
        return [p for t in node.tensors if (p := self._tenancy.places[t]) is not None]

    def _bind(self, node: Instruction, write: Write, mask: Mask | None) -> Bound:
        places = self._places(node)
        call = self._forms[node.signature].call
        plan = self._find_plan(node, call, places, write, node.signature)
        return plan.bind(places, node.offsets, node.immediates, mask)  # type: ignore[arg-type]

    def _bind_moving(self, node: Instruction, index: int) -> Bound:
        """Bind it in each run."""
        moving = self._make_moving(node, index)
        return (moving.run,), ((),), ((moving.run_checked,), ((),))

    def _make_moving(
        self, node: Instruction, index: int, wrap: Callable[[Binder], Binder] | None = None
    ) -> Moving:
        form = self._forms[node.signature]

        def make_binder(call: Call, places: Sequence[Place]) -> Binder:
            # Operands that were gathered have patterns of their own.
            kind = node.signature if call.signature is form.call.signature else call.signature
            if form.is_matmul:
                return self._make_matmul_binder(node, call, places, kind)
            plan = self._find_plan(node, call, places, Write.FRESH, kind)
            bind = self._bound_forms.remember(
                lambda offsets: plan.bind(places, offsets, node.immediates)
            )
            return bind if wrap is None else wrap(bind)

        try:
            moving = make_moving(node, form, self._places(node), self._parts, make_binder)
        except KernelError as error:
            raise self._placed(node, error) from error
        self._moving[index - self._start] = moving
        return moving

    def _make_matmul_binder(
        self, node: Instruction, call: Call, places: Sequence[Place], kind: object
    ) -> Binder:
        form, tensor = self._forms[node.signature], node.tensors[0]
        accumulate = form.call.attribute("accumulate")
        if tensor in self._undecided.scattered and accumulate is None:
            refuse("a matmul without `accumulate` on a tile that is scattered to")
        started = self._undecided.tensors.get(tensor)
        if started is None:
            write, mask = self._judge_matmul(node)
            plan = self._find_plan(node, call, places, write, kind)
            return lambda offsets: plan.bind(places, offsets, node.immediates, mask)

        def bind(offsets: Offsets) -> Bound:
            region = (node.signature, offsets[0])
            write, mask = started.write(region, form.operands[0], accumulate=accumulate)
            plan = self._find_plan(node, call, places, write, kind)
            return plan.bind(places, offsets, node.immediates, mask)

        return bind

    def _find_plan(
        self, node: Instruction, call: Call, places: Sequence[Place], write: Write, kind: object
    ) -> Plan:
        known: tuple[float | None, ...] = ()
        if node.immediates:
            known = tuple([v if v in (0, 1) else None for v in node.immediates])
        layouts = tuple([place.layout_number for place in places])
        registers = () if node.detail is None else node.detail.registers
        key = (kind, layouts, known, write, registers)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._make_plan(node, call, places, known, write)
        return plan

    def _make_plan(
        self,
        node: Instruction,
        call: Call,
        places: Sequence[Place],
        known: tuple[float | None, ...],
        write: Write,
    ) -> Plan:
        layouts = [place.layout for place in places]
        registers = () if node.detail is None else node.detail.registers
        try:
            handler = HANDLERS.get(call.signature.op)
            if handler is None:
                refuse(f"instruction `nisa.{call.signature.op}`")
            site = Site(call, layouts, known, self._machine, write, registers)
            handler(site)
        except KernelError as error:
            raise self._placed(node, error) from error
        return site.finish()

    def _refuse(self, node: Instruction, what: str) -> NoReturn:
        try:
            refuse(what)
        except KernelError as error:
            raise self._placed(node, error) from error

    def _placed(self, node: Instruction, error: KernelError) -> KernelError:
        """The error at the instruction's line."""
        where = self._program.stack(node.stack)
        return KernelError(msgspec.structs.replace(error.diagnostic, where=where))


def _identity(node: Instruction) -> tuple[object, ...]:
    return node.signature, node.tensors, node.offsets, node.detail


def _find_twins(program: Program) -> set[tuple[object, ...]]:
    """Collectives that every core of several carries out on the same bytes."""
    if len(program.bodies) == 1 or not any(s.op in COLLECTIVES for s in program.signatures):
        return set()
    found = [
        {_identity(i) for i in program.instructions(core) if _is_collective(program, i)}
        for core in range(len(program.bodies))
    ]
    return set.intersection(*found)


def _is_collective(program: Program, node: Instruction) -> bool:
    return program.signatures[node.signature].op in COLLECTIVES


def _count_steps(form: Form) -> int:
    elems = [o.pattern.partitions * o.pattern.free_elems for o in form.operands]
    most = max(elems, default=0)
    is_dear = form.call.signature.op in DEAR
    return 1 + most // (DEAR_STEP_ELEMS if is_dear else STEP_ELEMS)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection meanwhile: there are no cycles, and it would walk over all calls."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
