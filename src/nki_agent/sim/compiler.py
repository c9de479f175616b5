"""Turns the instructions of a Program into calls.

Equal instructions on equal buffers share their calls, so an unrolled loop whose tiles take turns in
the same buffers is bound once. A plan is made once for each signature and layout of its tensors.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.declaration import Call
from nki_agent.isa.table import TABLE
from nki_agent.program.records import Instruction, Program
from nki_agent.sim.calls import Calls, Checked
from nki_agent.sim.forms import Form
from nki_agent.sim.plan import Bound, Plan, refuse
from nki_agent.sim.psum import Mask, StartedElements, Write
from nki_agent.sim.site import Machine, Site
from nki_agent.sim.storage import Place
from nki_agent.sim.table import HANDLERS
from nki_agent.sim.tenancy import Tenancy
from nki_agent.sim.usage import find_usage

BOUNDS_MAX = 200_000
"""Bound instructions kept to be found again; their keys take memory."""


class Compiler:
    """One compilation; `compile` fills `calls` and `tenancy`."""

    def __init__(self, program: Program, chip: ChipSpec, *, memory_bytes_max: int) -> None:
        """Look at the whole Program; KernelError if it holds what is not modelled."""
        self._program = program
        self._body = _plain_body(program)
        self._forms = [Form.of(Call(TABLE[s.op], s, chip)) for s in program.signatures]
        self._started: dict[int, StartedElements] = {}
        self._plans: dict[object, Plan] = {}
        self._bounds: dict[object, Bound] = {}
        self.machine = Machine()
        self.calls = Calls()
        usage = find_usage(program, self._body)
        self.tenancy = Tenancy(program, self._body, usage, self.calls, memory_bytes_max)

    def compile(self) -> None:
        """Place tensors and bind every instruction; KernelError where that cannot be done."""
        with _collector_paused(), np.errstate(all="ignore"):
            self.tenancy.settle(self._forms)
            self._compile_body()

    def _compile_body(self) -> None:
        tenancy, bounds, forms = self.tenancy, self._bounds, self._forms
        numbers, last = tenancy.numbers, tenancy.last
        all_runs, all_args = self.calls.runs, self.calls.args
        for index, node in enumerate(self._body):
            tensors = node.tensors
            held = tuple([numbers[t] for t in tensors])
            if 0 in held:
                tenancy.open_new(node, forms[node.signature])
                held = tuple([numbers[t] for t in tensors])
            # 0.0 and -0.0 are equal as keys.
            immediates = node.immediates
            apart = repr(immediates) if 0 in immediates else immediates
            key = (node.signature, held, node.offsets, apart)
            bound = bounds.get(key)
            if bound is None:
                bound = self._bind_first(node, key)
            runs, args, with_checks = bound
            if with_checks is not None:
                self.calls.checked.append(
                    Checked(len(all_runs), len(runs), *with_checks, node.stack)
                )
            all_runs += runs
            all_args += args
            for tensor in tensors:
                if last[tensor] == index and tenancy.close(tensor):
                    self._started.pop(tensor, None)

    def _bind_first(self, node: Instruction, key: tuple[object, ...]) -> Bound:
        """Bind an instruction that was not met before; a matmul never counts as met before."""
        write, mask = Write.FRESH, None
        if self._forms[node.signature].is_matmul:
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

    def _bind(self, node: Instruction, write: Write, mask: Mask | None) -> Bound:
        places = [p for t in node.tensors if (p := self.tenancy.places[t]) is not None]
        known: tuple[float | None, ...] = ()
        if node.immediates:
            known = tuple([v if v in (0, 1) else None for v in node.immediates])
        layouts = tuple([place.layout_number for place in places])
        key = (node.signature, layouts, known, write)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._make_plan(node, places, known, write)
        return plan.bind(places, node.offsets, node.immediates, mask)  # type: ignore[arg-type]

    def _make_plan(
        self,
        node: Instruction,
        places: list[Place],
        known: tuple[float | None, ...],
        write: Write,
    ) -> Plan:
        call = self._forms[node.signature].call
        layouts = [place.layout for place in places]
        try:
            handler = HANDLERS.get(call.signature.op)
            if handler is None:
                refuse(f"instruction `nisa.{call.signature.op}`")
            site = Site(call, layouts, known, self.machine, write)
            handler(site)
        except KernelError as error:
            where = self._program.stack(node.stack)
            raise KernelError(msgspec.structs.replace(error.diagnostic, where=where)) from error
        return site.finish()


def _plain_body(program: Program) -> list[Instruction]:
    body = program.bodies[0] if program.bodies else ()
    plain = [node for node in body if isinstance(node, Instruction) and node.detail is None]
    if len(plain) == len(body) and len(program.bodies) <= 1:
        return plain
    raise KernelError(
        Diagnostic(
            code="NK114",
            what="loops on registers, run-time offsets and several cores are not simulated",
            hint="use Python loops, which are unrolled, on one core",
        )
    )


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
