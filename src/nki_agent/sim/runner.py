"""Runs the compiled bodies of all cores of one rank, or of several ranks, once.

Law: a loop's bounds are read when it begins; its index counts on whatever the body writes. A run
takes so many steps at most, empty iterations included: it ends with NK111 at the line of a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.program.records import Loop, LoopKind, MovedRows, Program, Trips
from nki_agent.sim.blocks import Barrier, Block, Collective, Core, Meeting, Repeat, Straight, Swap
from nki_agent.sim.calls import run_checked, run_plain
from nki_agent.sim.meeting import Meetings, Report
from nki_agent.sim.ranks import Ranks
from nki_agent.sim.sequencer import Sequencer
from nki_agent.sim.sharing import SharedLog

STEPS_MAX = 10_000_000
"""Instructions that a run may execute in loops; a large tile counts as several."""


class Runner:
    """One run of one rank."""

    def __init__(
        self,
        program: Program,
        cores: Sequence[Core],
        *,
        report: Report | None = None,
        steps_max: int = STEPS_MAX,
    ) -> None:
        """With `report`, the run is checked."""
        self._program = program
        self._cores = cores
        self._report = report
        self._steps_max = self._steps_left = steps_max
        self._trips: dict[int, int] = {}
        has_log = report is not None and any(core.watch.tensors for core in cores)
        self._log = SharedLog(program) if has_log else None
        for core in cores:
            core.watch.log = self._log
            core.machine.reset()
            for moving in core.moving.values():
                moving.reset()

    def start(self) -> Meetings:
        """The cores, about to begin."""
        walks = [self._walk(number, core.block) for number, core in enumerate(self._cores)]
        machines = [core.machine for core in self._cores]
        return Meetings(self._program, walks, machines, self._on_barrier, self._report)

    def finish(self) -> None:
        """Report what only shows in the end."""
        if self._log is not None and self._report is not None:
            for stack, found in self._log.close_all():
                self._report(stack, found)

    @property
    def trips(self) -> Trips:
        """What the run has found out."""
        num_loops = max(self._trips, default=-1) + 1
        return Trips(
            tuple(self._trips.get(number, 0) for number in range(num_loops)),
            tuple(
                MovedRows(number, index, moving.moved, moving.skipped)
                for number, core in enumerate(self._cores)
                for index, moving in sorted(core.moving.items())
                if moving.counts_rows
            ),
        )

    def _on_barrier(self, tensor: int) -> None:
        if self._log is not None and self._report is not None:
            for stack, found in self._log.close(tensor):
                self._report(stack, found)

    def _walk(self, core: int, block: Block) -> Iterator[Meeting]:
        for part in block:
            match part:
                case Straight():
                    self._run_straight(core, part)
                case Repeat():
                    yield from self._repeat(core, part)
                case Collective():
                    self._count_collective(core, part)
                    yield part
                case Barrier() | Swap():
                    yield part

    def _count_collective(self, core: int, part: Collective) -> None:
        self._steps_left -= part.steps
        if self._log is not None and part.accesses:
            self._log.add_all(core, part.accesses)

    def _run_straight(self, core: int, part: Straight) -> None:
        if self._log is not None and part.accesses:
            self._log.add_all(core, part.accesses)
        self._steps_left -= part.steps
        if self._report is None or not part.calls.checked:
            run_plain(part.calls)
            return
        for stack, found in run_checked(part.calls):
            self._report(stack, found)

    def _repeat(self, core: int, part: Repeat) -> Iterator[Meeting]:
        loop, trips = part.loop, self._trips
        trips.setdefault(loop.number, 0)
        for _ in self._iterations(self._cores[core].machine.sequencer, loop):
            trips[loop.number] += 1
            self._steps_left -= 1
            if self._steps_left < 0:
                raise KernelError(self._too_long(loop))
            yield from self._walk(core, part.body)

    def _iterations(self, sequencer: Sequencer, loop: Loop) -> Iterator[None]:
        """Sets the loop's register for each iteration."""
        try:
            match loop.kind:
                case LoopKind.FORI:
                    for value in _values(sequencer, loop):
                        sequencer.set(loop.index, value)
                        yield
                case LoopKind.WHILE:
                    assert loop.test is not None
                    assert loop.next is not None
                    sequencer.set(loop.index, sequencer.get(loop.test))
                    while sequencer.get(loop.index):
                        yield
                        sequencer.set(loop.index, sequencer.get(loop.next))
                case LoopKind.AFFINE | LoopKind.SEQUENTIAL | LoopKind.GRID:
                    raise AssertionError("loops of the older dialect")
        except KernelError as error:
            where = self._program.stack(loop.stack)
            raise KernelError(msgspec.structs.replace(error.diagnostic, where=where)) from error

    def _too_long(self, loop: Loop) -> Diagnostic:
        return Diagnostic(
            code="NK111",
            what="steps of the kernel's run-time loops in the simulator",
            got=f"more after {self._trips[loop.number]} iterations of this loop",
            limit=str(self._steps_max),
            where=self._program.stack(loop.stack),
            hint="let the loop end: a `while_loop` needs a condition that becomes 0, a `fori_loop`"
            " bounds that are loaded right",
        )


def run_together(program: Program, ranks: Sequence[Runner]) -> None:
    """Run every rank to its end; KernelError where an instruction cannot be carried out."""
    Ranks(program, [runner.start() for runner in ranks]).run()
    for runner in ranks:
        runner.finish()


def _values(sequencer: Sequencer, loop: Loop) -> range:
    def bound(number: object, register: int | None) -> int:
        if register is not None:
            return sequencer.get(register)
        assert isinstance(number, int)
        return number

    lower = bound(loop.lower, loop.lower_register)
    return range(lower, bound(loop.upper, loop.upper_register), loop.step)
