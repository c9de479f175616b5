"""Two cores as coroutines that wait for each other at barriers and exchanges.

Law: a core runs until it must wait. A barrier needs one of the other core on the same tensor, an
exchange one with the same `pipe_id`. Exchanges that follow each other and touch different tensors
are under way together, so their pipes may come in another order on the other core. Where no core
can go on, the run ends with NK403. Waits for other ranks are left to `ranks`.
Not modelled: work of other engines that goes on behind a barrier; `sharing` finds what needs one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.program.records import Instruction, Program
from nki_agent.program.validate import written_positions
from nki_agent.sim.blocks import Barrier, Collective, Exchange, Meeting, Repeat, Straight, Swap
from nki_agent.sim.calls import run_all
from nki_agent.sim.collective import COLLECTIVES
from nki_agent.sim.control import receive
from nki_agent.sim.forms import Form
from nki_agent.sim.plan import Bound
from nki_agent.sim.site import Machine

BARRIER, EXCHANGE = "core_barrier", "sendrecv"
MEETINGS = (BARRIER, EXCHANGE, *COLLECTIVES)
Walk = Iterator[Meeting]
Report = Callable[[int, Diagnostic], None]
"""Takes a finding and the stack of its instruction."""


def add_meeting(
    parts: list[Straight | Repeat | Meeting], node: Instruction, form: Form, bound: Bound
) -> None:
    """Add an instruction at which its core waits; an exchange may join those in front of it."""
    if form.call.signature.op == BARRIER:
        parts.append(Barrier(node.tensors[0], node.stack))
        return
    exchange = _make_exchange(node, form, bound)
    before = parts[-1] if parts else None
    if isinstance(before, Swap) and all(_is_apart(e, exchange) for e in before.exchanges):
        parts[-1] = Swap((*before.exchanges, exchange))
    else:
        parts.append(Swap((exchange,)))


def _make_exchange(node: Instruction, form: Form, bound: Bound) -> Exchange:
    runs, args, _ = bound
    calls = tuple(zip(runs, args, strict=True))
    middle = runs.index(receive)
    to, source, pipe = (
        form.call.attribute(name) for name in ("send_to_rank", "recv_from_rank", "pipe_id")
    )
    assert isinstance(to, int)
    assert isinstance(source, int)
    operand = form.operands[0]
    pattern = operand.pattern
    (written,) = written_positions(form.call.signature)
    return Exchange(
        pipe=pipe,
        to=to,
        source=source,
        form=(pattern.partitions, pattern.free_elems, operand.dtype.value),
        sends=calls[:middle],
        receives=calls[middle:],
        read=node.tensors[1 - written],
        written=node.tensors[written],
        stack=node.stack,
    )


def _is_apart(first: Exchange, second: Exchange) -> bool:
    """Whether the second need not wait for the first."""
    if first.pipe == second.pipe:
        return False
    return first.written not in (second.read, second.written) and first.read != second.written


class Meetings:
    """The cores of one rank in one run."""

    def __init__(
        self,
        program: Program,
        walks: Sequence[Walk],
        machines: Sequence[Machine],
        on_barrier: Callable[[int], None],
        report: Report | None = None,
    ) -> None:
        """`on_barrier` is told the tensor when both cores have come to a barrier.

        With `report`, collectives are checked.
        """
        self._program = program
        self._walks = walks
        self.machines = machines
        self.report = report
        self._on_barrier = on_barrier
        self.waiting: list[Meeting | None] = [None] * len(walks)
        """Where each core waits; None before it begins and after its end."""
        self._under_way: list[dict[object, Exchange]] = [{} for _ in walks]

    def go_on(self, released: Sequence[int]) -> None:
        """Let cores go on until none can without another rank."""
        while released:
            for core in released:
                self._go_on(core)
            released = self._release()

    def _go_on(self, core: int) -> None:
        meeting = self.waiting[core] = next(self._walks[core], None)
        if isinstance(meeting, Swap):
            for exchange in meeting.exchanges:
                run_all(exchange.sends)
                self._under_way[core][exchange.pipe] = exchange

    def _release(self) -> list[int]:
        """Let cores meet; those that need not wait any longer."""
        if len(self._walks) == 1:
            return []
        first, second = self.waiting
        if isinstance(first, Barrier) and isinstance(second, Barrier):
            if first.tensor != second.tensor:
                return []
            self._on_barrier(first.tensor)
            return [0, 1]
        for pipe in [p for p in self._under_way[0] if p in self._under_way[1]]:
            self._exchange(self._under_way[0].pop(pipe), self._under_way[1].pop(pipe))
        return [
            core
            for core, meeting in enumerate(self.waiting)
            if isinstance(meeting, Swap) and not self._under_way[core]
        ]

    def _exchange(self, first: Exchange, second: Exchange) -> None:
        pair = (first, second)
        for core, mine in enumerate(pair):
            if pair[mine.source].to != core:
                raise KernelError(self._unsent(core, pair))
        if first.form != second.form:
            raise KernelError(self._unequal(pair))
        for core, mine in enumerate(pair):
            sent = self.machines[mine.source].sequencer.sent[mine.pipe]  # type: ignore[index]
            self.machines[core].sequencer.received[mine.pipe] = sent  # type: ignore[index]
        for mine in pair:
            run_all(mine.receives)

    def _place(self, stack: int) -> str:
        frames = self._program.stack(stack)
        return f" at {frames[-1]}" if frames else ""

    def stuck(self) -> Diagnostic:
        """Why cores wait for each other for ever."""
        core = 0 if self.waiting[0] is not None else 1
        meeting = self.waiting[core]
        assert meeting is not None
        what, stack = self._describe(meeting, core)
        others = [n for n in range(len(self._walks)) if n != core]
        if not others:
            other = "the kernel runs on one core"
        else:
            other = f"core {others[0]} {self.describe_state(others[0])}"
        return Diagnostic(
            code="NK403",
            what=f"core {core} waits for ever in {what}, while {other}",
            where=self._program.stack(stack),
            hint="let both cores reach the same barriers, on the same tensor, and exchanges with"
            " the same `pipe_id`, in the same order",
        )

    def describe_state(self, core: int) -> str:
        """Where a core waits, or that it has come to its end."""
        meeting = self.waiting[core]
        if meeting is None:
            return "has come to its end"
        words, stack = self._describe(meeting, core)
        return f"waits in {words}{self._place(stack)}"

    def _describe(self, meeting: Meeting, core: int) -> tuple[str, int]:
        match meeting:
            case Barrier():
                name = self._program.tensors[meeting.tensor].name
                return f"`core_barrier` on `{name}`", meeting.stack
            case Collective():
                return f"`{meeting.call.declaration.name}`", meeting.stack
            case Swap():
                exchange = next(iter(self._under_way[core].values()))
                return f"`sendrecv` with pipe_id {exchange.pipe}", exchange.stack

    def _unsent(self, core: int, pair: tuple[Exchange, Exchange]) -> Diagnostic:
        mine, other = pair[core], pair[1 - core]
        return Diagnostic(
            code="NK403",
            what=f"core {core} waits for ever for a tile of core {mine.source}, which sends its"
            f" tile to core {pair[mine.source].to}{self._place(other.stack)}",
            where=self._program.stack(mine.stack),
            hint="both cores send to `1 - nl.program_id(0)`, and receive from there",
        )

    def _unequal(self, pair: tuple[Exchange, Exchange]) -> Diagnostic:
        first, second = pair
        return Diagnostic(
            code="NK304",
            what="tile that core 0 exchanges by `sendrecv` (partitions, elements, dtype)",
            got=str(first.form),
            limit=f"{second.form}, as on core 1{self._place(second.stack)}",
            where=self._program.stack(first.stack),
            hint="send tiles of one shape and dtype on both cores",
        )
