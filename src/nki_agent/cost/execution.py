"""What one core runs, in order: its instructions with loops gone through iteration by iteration.

Law: a loop with known bounds is gone through so often, one with run-time bounds as often as `trips`
says, else once. Where that makes more instructions than `EXECUTED_MAX`, every loop is cut: a few
iterations are run, and a `Jump` stands for the rest in front of the last one. The result depends on
nothing else, so it is the same each time.
Not covered: entries of one loop that run unequally often share its count evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nki_agent.program.records import (
    Dynamic,
    DynamicKind,
    Guard,
    Instruction,
    Loop,
    Node,
    Program,
    Scope,
    ScopeKind,
)
from nki_agent.program.registers import Constants, find_constants, loop_values

EXECUTED_MAX = 200_000
"""Instructions that are run one by one, if the Program itself has no more."""
CUTS = (16, 4, 1)
"""Iterations that are run of each loop where all are too many: the first of these that fits."""
ANY_ORDER = 0
"""The scope of instructions outside of `no_reorder`."""

Trips = Mapping[int, int]
"""How often each loop ran, by its number, all entries together."""


@dataclass(frozen=True, slots=True)
class Run:
    """Instructions [start, stop), all in one scope."""

    start: int
    stop: int
    scope: int


@dataclass(frozen=True, slots=True)
class Enter:
    """The start of a loop."""

    loop: Loop


@dataclass(frozen=True, slots=True)
class Turn:
    """The start of an iteration."""

    loop: Loop
    is_first: bool


@dataclass(frozen=True, slots=True)
class Jump:
    """So many iterations that are not run, as long as the latest ones."""

    loop: Loop
    iterations: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The end of a loop."""

    loop: Loop


Step = Run | Enter | Turn | Jump | Leave


@dataclass(slots=True)
class Execution:
    """One core's run; rows of the lists belong together."""

    core: int
    instructions: Sequence[Instruction]
    numbers: Sequence[int]
    """Each one's number in the core's Program, loop bodies once."""
    weights: Sequence[int]
    """How many executions each stands for."""
    steps: list[Step]
    moved: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows with operands that may lie anywhere in their tensors, and which."""
    assumed: dict[int, Loop] = field(default_factory=dict)
    """Loops, by number, that were gone through once because no count is known."""


def execute(program: Program, trips: Trips | None) -> list[Execution]:
    """What each core runs."""
    if program.is_flat:
        body: Sequence[Instruction] = program.bodies[0]  # type: ignore[assignment]
        whole = Execution(
            core=0,
            instructions=body,
            numbers=range(len(body)),
            weights=[1] * len(body),
            steps=[Run(0, len(body), ANY_ORDER)],
        )
        for row, node in enumerate(body):
            if node.detail is not None:
                moved = tuple(d.operand for d in node.detail.dynamic)
                if moved:
                    whole.moved[row] = moved
        return [whole]
    counter = _Counter(find_constants(program), trips or {})
    cut = counter.choose_cut(program)
    found = []
    for core, nodes in enumerate(program.bodies):
        walker = _Walker(program, core, counter, cut)
        walker.walk(nodes, first=0, scope=ANY_ORDER, weight=1)
        walker.flush(ANY_ORDER)
        found.append(walker.execution)
    return found


@dataclass(slots=True)
class _Count:
    """How often a loop runs: all entries together, and how many entries there are."""

    total: int
    entries: int

    def of_entry(self, entry: int) -> int:
        """Iterations of one entry."""
        each = self.entries
        return (entry + 1) * self.total // each - entry * self.total // each if each else 0


class _Counter:
    """Counts of loops."""

    def __init__(self, constants: Constants, trips: Trips) -> None:
        self.constants = constants
        self._trips = trips
        self.counts: dict[int, _Count] = {}
        self.assumed: dict[int, Loop] = {}
        self._sizes: dict[int, int] = {}

    def choose_cut(self, program: Program) -> int | None:
        """Iterations to run of each loop; None for all of them."""
        for body in program.bodies:
            self._count(body, 1)
        least = sum(self._size(body, 1) for body in program.bodies)
        for cut in (None, *CUTS):
            if sum(self._size(b, cut) for b in program.bodies) <= max(EXECUTED_MAX, least):
                return cut
        return CUTS[-1]

    def _count(self, body: tuple[Node, ...], entries: int) -> None:
        for node in body:
            match node:
                case Loop():
                    total = self._total(node, entries)
                    self.counts[node.number] = _Count(total, entries)
                    self._count(node.body, total)
                case Scope() | Guard():
                    self._count(node.body, entries)
                case Instruction():
                    pass

    def _total(self, loop: Loop, entries: int) -> int:
        values = loop_values(loop, self.constants)
        if values is not None:
            return entries * len(values)
        if loop.number in self._trips:
            return self._trips[loop.number]
        self.assumed[loop.number] = loop
        return entries

    def _size(self, body: tuple[Node, ...], cut: int | None) -> int:
        size = 0
        for node in body:
            match node:
                case Instruction():
                    size += 1
                case Loop():
                    count = self.counts[node.number]
                    each = -(-count.total // max(1, count.entries))
                    size += self._size(node.body, cut) * (each if cut is None else min(each, cut))
                case Scope() | Guard():
                    size += self._size(node.body, cut)
        return size

    def num_instructions(self, body: tuple[Node, ...]) -> int:
        """Instructions of a body, inner bodies once."""
        known = self._sizes.get(id(body))
        if known is None:
            known = self._sizes[id(body)] = sum(
                1 if isinstance(n, Instruction) else self.num_instructions(n.body) for n in body
            )
        return known


class _Walker:
    """Writes down what one core runs."""

    def __init__(self, program: Program, core: int, counter: _Counter, cut: int | None) -> None:
        self._program = program
        self._counter = counter
        self._cut = cut
        self._values: dict[int, int] = dict(counter.constants)
        self._entries: dict[int, int] = {}
        self._bytes = [t.partition_bytes for t in program.tensors]
        self._reaches: dict[tuple[int, int], tuple[int, int]] = {}
        self._scopes = ANY_ORDER
        self._start = 0
        self._instructions: list[Instruction] = []
        self._numbers: list[int] = []
        self._weights: list[int] = []
        self.execution = Execution(
            core=core,
            instructions=self._instructions,
            numbers=self._numbers,
            weights=self._weights,
            steps=[],
        )

    def flush(self, scope: int) -> None:
        """End the run of instructions that is being written."""
        stop = len(self._instructions)
        if stop > self._start:
            self.execution.steps.append(Run(self._start, stop, scope))
        self._start = stop

    def walk(self, body: tuple[Node, ...], *, first: int, scope: int, weight: int) -> None:
        """Go through a body whose first instruction has the number `first`."""
        number = first
        for node in body:
            match node:
                case Instruction():
                    self._add(node, number, weight)
                    number += 1
                case Loop():
                    self.flush(scope)
                    self._walk_loop(node, number, scope, weight)
                    number += self._counter.num_instructions(node.body)
                case Scope() | Guard():
                    inner = scope
                    is_ordered = isinstance(node, Scope) and node.kind is ScopeKind.NO_REORDER
                    if is_ordered and scope == ANY_ORDER:
                        self.flush(scope)
                        self._scopes += 1
                        inner = self._scopes
                    self.walk(node.body, first=number, scope=inner, weight=weight)
                    if inner != scope:
                        self.flush(inner)
                    number += self._counter.num_instructions(node.body)

    def _walk_loop(self, loop: Loop, first: int, scope: int, weight: int) -> None:
        if loop.number in self._counter.assumed:
            self.execution.assumed[loop.number] = loop
        entry = self._entries.get(loop.number, 0)
        self._entries[loop.number] = entry + 1
        count = self._counter.counts[loop.number].of_entry(entry)
        values = loop_values(loop, self._counter.constants)
        steps = self.execution.steps
        steps.append(Enter(loop))
        run = count if self._cut is None else min(count, self._cut)
        left_out = count - run
        for turn in range(run):
            is_last = turn == run - 1
            if is_last and left_out and run > 1:
                steps.append(Jump(loop, left_out))
            self._values.pop(loop.index, None)
            if values is not None:
                self._values[loop.index] = values[count - 1 if is_last else turn]
            steps.append(Turn(loop, is_first=turn == 0))
            stands_for = weight * (1 + left_out if is_last else 1)
            self.walk(loop.body, first=first, scope=scope, weight=stands_for)
            self.flush(scope)
        if left_out and run == 1:
            steps.append(Jump(loop, left_out))
        self._values.pop(loop.index, None)
        steps.append(Leave(loop))

    def _add(self, node: Instruction, number: int, weight: int) -> None:
        if node.detail is not None and node.detail.dynamic:
            node = self._place(node, node.detail.dynamic)
        self._instructions.append(node)
        self._numbers.append(number)
        self._weights.append(weight)

    def _place(self, node: Instruction, dynamics: tuple[Dynamic, ...]) -> Instruction:
        """The instruction at the offsets that are known; the others are noted."""
        offsets, moved = list(node.offsets), list[int]()
        for dynamic in dynamics:
            at, base = dynamic.operand, node.offsets[dynamic.operand]
            value = None if dynamic.register is None else self._values.get(dynamic.register)
            if value is None or dynamic.kind is not DynamicKind.SCALAR or not isinstance(base, int):
                moved.append(at)
                continue
            offset = base + value * dynamic.stride_bytes
            low, end = self._reach(node.signature, at)
            if offset + low >= 0 and offset + end <= self._bytes[node.tensors[at]]:
                offsets[at] = offset
            else:
                moved.append(at)
        if moved:
            self.execution.moved[len(self._instructions)] = tuple(moved)
        return Instruction(
            node.signature,
            node.tensors,
            tuple(offsets),
            node.immediates,
            node.stack,
            node.detail,
        )

    def _reach(self, signature: int, place: int) -> tuple[int, int]:
        """First byte of an operand and the byte after its last, relative to its offset."""
        known = self._reaches.get((signature, place))
        if known is None:
            operands = [
                o for o in self._program.signatures[signature].operands if not o.is_immediate
            ]
            low, high = operands[place].pattern.extent
            known = (low, high + operands[place].dtype.itemsize)
            self._reaches[signature, place] = known
        return known
