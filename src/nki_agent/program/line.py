"""The instructions of a Program in one order, loop bodies once, with the loops as intervals.

Law: the order keeps each core's own. Between two cores it follows what they wait for: the part
before a core's n-th barrier or exchange comes before the part after the other core's n-th. A body
that is known never to run is left out.
Not covered: whether both cores reach the same barriers; they are paired as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nki_agent.program.records import Guard, Instruction, Loop, Node, Program, Scope
from nki_agent.program.registers import Constants, find_constants, loop_values

Ints = npt.NDArray[np.int64]

OUTSIDE = -1
"""The span of an instruction outside of every loop."""
MEETINGS = ("core_barrier", "sendrecv")
"""Instructions at which two cores wait for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A loop as an interval of the order: from its first to its last instruction, both included."""

    loop: Loop
    path: tuple[int, ...]
    """Spans around it and itself, outermost first, as indices."""
    first: int
    last: int
    values: range | None
    """What it counts through, if that is known."""

    @property
    def is_certain(self) -> bool:
        """Whether it runs at least once wherever it is reached."""
        return self.values is not None and len(self.values) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The order; rows of `body`, `span_of` and `core_of` belong together."""

    body: Sequence[Instruction]
    spans: tuple[Span, ...]
    span_of: Ints | None
    """The innermost span of each instruction, or `OUTSIDE`; None where there is no loop."""
    core_of: Ints | None
    """The core of each instruction; None where there is one core."""
    constants: Constants


def make_line(program: Program) -> Line:
    """Put the instructions of all cores in order."""
    if program.is_flat:
        body: Sequence[Instruction] = program.bodies[0]  # type: ignore[assignment]
        return Line(body=body, spans=(), span_of=None, core_of=None, constants={})
    walker = _Walker(find_constants(program))
    for body_ in program.bodies:
        walker.start_core()
        walker.walk(body_, ())
    return walker.finish(program)


class _Walker:
    """Collects the cores one after the other."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.body: list[Instruction] = []
        self.span_of: list[int] = []
        self.core_starts: list[int] = []
        self.loops: list[tuple[Loop, tuple[int, ...]]] = []
        self.ends: list[tuple[int, int]] = []

    def start_core(self) -> None:
        self.core_starts.append(len(self.body))

    def walk(self, body: tuple[Node, ...], path: tuple[int, ...]) -> None:
        here = path[-1] if path else OUTSIDE
        for node in body:
            match node:
                case Instruction():
                    self.body.append(node)
                    self.span_of.append(here)
                case Loop():
                    self._walk_loop(node, path)
                case Scope() | Guard():
                    self.walk(node.body, path)

    def _walk_loop(self, loop: Loop, path: tuple[int, ...]) -> None:
        values = loop_values(loop, self.constants)
        if values is not None and not len(values):
            return
        number, first = len(self.loops), len(self.body)
        inner = (*path, number)
        self.loops.append((loop, inner))
        self.ends.append((first, first))
        self.walk(loop.body, inner)
        self.ends[number] = (first, len(self.body) - 1)

    def finish(self, program: Program) -> Line:
        """The order over all cores."""
        count = len(self.body)
        place = np.arange(count)
        body: Sequence[Instruction] = self.body
        span_of = np.array(self.span_of, np.int64)
        core_of = None
        if len(self.core_starts) > 1:
            core_of = np.searchsorted(np.array(self.core_starts), place, side="right") - 1
            order = self._interleave(program, core_of)
            place[order] = np.arange(count)
            body = [self.body[i] for i in order.tolist()]
            span_of, core_of = span_of[order], core_of[order]
        spans = [
            Span(
                loop=loop,
                path=path,
                first=int(place[first]),
                last=int(place[last]),
                values=loop_values(loop, self.constants),
            )
            if last >= first
            else Span(loop=loop, path=path, first=0, last=OUTSIDE, values=None)
            for (loop, path), (first, last) in zip(self.loops, self.ends, strict=True)
        ]
        return Line(
            body=body,
            spans=tuple(spans),
            span_of=span_of if spans else None,
            core_of=core_of,
            constants=self.constants,
        )

    def _interleave(self, program: Program, core_of: Ints) -> Ints:
        """The order in which parts between barriers alternate."""
        meets = np.array([s.op in MEETINGS for s in program.signatures], np.bool_)
        is_meeting = np.array([meets[i.signature] for i in self.body], np.int64)
        before = np.cumsum(is_meeting) - is_meeting
        starts = np.array(self.core_starts)
        total = np.append(np.cumsum(is_meeting), 0)
        # Meetings of a core are counted from its own start.
        first = np.where(starts > 0, total[starts - 1], 0)
        return np.lexsort((np.arange(len(self.body)), core_of, before - first[core_of]))
