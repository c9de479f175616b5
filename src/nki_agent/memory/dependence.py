"""Which results no argument can reach: a kernel that returns them computed nothing from its inputs.

Law: whole tensors and registers are followed, in the order of `program.line`; what an argument
reached stays reached, so a result that is named here certainly ignores the arguments. A value goes
on through registers, run-time offsets, loop bounds (to all that the body writes), accumulators, the
state of random numbers and exchanges between cores. Immediates and constants carry nothing. Within
a loop, and in a Program of two cores, order is not looked at: each instruction may follow any
other.
Not covered: a dependence that exists but has no effect (times zero); other seeds find that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from nki_agent.isa.enums import ReduceCommand
from nki_agent.isa.signature import Signature
from nki_agent.program.line import MEETINGS
from nki_agent.program.records import Guard, Instruction, Loop, Node, Program, Scope, walk
from nki_agent.program.registers import register_places
from nki_agent.program.validate import read_positions, written_positions

SEEDING = ("set_rng_seed", "rand_set_state")
DRAWING = ("rng", "rand_get_state", "rand2", "dropout")
STATES = ("vector accumulators", "scalar accumulators", "random numbers", "exchange")
"""What instructions pass on to later ones outside of tensors; each is a node."""
VECTOR_SUMS, SCALAR_SUMS, RANDOM, EXCHANGE = range(len(STATES))


class _Flow(NamedTuple):
    """What one signature reads and writes, as places of tensors and as hidden states."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    state_reads: tuple[int, ...]
    state_writes: tuple[int, ...]
    register_reads: tuple[int, ...]
    register_writes: tuple[int, ...]
    is_plain: bool
    """Whether it has no hidden states."""


Edge = tuple[tuple[int, ...], tuple[int, ...]]
"""Nodes read and nodes written: tensors, then registers, then hidden states."""


def find_independent_results(program: Program) -> tuple[int, ...]:
    """Indices of results that no argument tensor reaches through the instructions."""
    flows = [_flow(s) for s in program.signatures]
    nodes = len(program.tensors) + len(program.registers) + len(STATES)
    reached = bytearray(nodes)
    for argument in program.arguments:
        if argument.tensor is not None:
            reached[argument.tensor] = True
    follower = _Follower(program, flows, reached)
    if len(program.bodies) == 1:
        follower.follow_in_order(program.bodies[0])
    else:
        follower.follow_in_any_order(chain.from_iterable(program.bodies))
    return tuple(i for i, result in enumerate(program.results) if not reached[result.tensor])


def _flow(signature: Signature) -> _Flow:
    reads, writes = list[int](), list[int]()
    command = signature.attribute("reduce_cmd")
    if signature.op == "activation_reduce" or command not in (None, ReduceCommand.IDLE):
        state = SCALAR_SUMS if signature.op.startswith("activat") else VECTOR_SUMS
        reads, writes = [state], [state]
    elif signature.op in SEEDING:
        writes = [RANDOM]
    elif signature.op in DRAWING:
        reads = [RANDOM]
    elif signature.op in MEETINGS:
        reads, writes = [EXCHANGE], [EXCHANGE]
    return _Flow(
        read_positions(signature),
        written_positions(signature),
        tuple(reads),
        tuple(writes),
        *register_places(signature),
        is_plain=not reads and not writes,
    )


class _Follower:
    """The state of the search."""

    def __init__(self, program: Program, flows: list[_Flow], reached: bytearray) -> None:
        self._program = program
        self._flows = flows
        self._reached = reached
        self._first_register = len(program.tensors)
        self._first_state = self._first_register + len(program.registers)

    def follow_in_order(self, body: tuple[Node, ...]) -> None:
        """Carry on from instruction to instruction; loops in any order."""
        for node in body:
            match node:
                case Instruction():
                    self._step(node)
                case Loop():
                    self.follow_in_any_order((node,))
                case Scope() | Guard():
                    self.follow_in_order(node.body)

    def _step(self, node: Instruction) -> None:
        flow, reached, tensors = self._flows[node.signature], self._reached, node.tensors
        if flow.is_plain and node.detail is None:
            for i in flow.reads:
                if reached[tensors[i]]:
                    for j in flow.writes:
                        reached[tensors[j]] = True
                    return
            return
        reads, writes = self._edge(node)
        if any(reached[i] for i in reads):
            for j in writes:
                reached[j] = True

    def follow_in_any_order(self, nodes: Iterable[Node]) -> None:
        """Carry on until nothing new is reached."""
        successors: dict[int, list[tuple[int, ...]]] = {}
        for reads, writes in self._edges(nodes):
            for read in reads:
                successors.setdefault(read, []).append(writes)
        reached = self._reached
        pending = [node for node in successors if reached[node]]
        while pending:
            for writes in successors.pop(pending.pop(), ()):
                for node in writes:
                    if not reached[node]:
                        reached[node] = True
                        pending.append(node)

    def _edges(self, nodes: Iterable[Node]) -> Iterator[Edge]:
        for node in nodes:
            match node:
                case Instruction():
                    yield self._edge(node)
                case Loop():
                    yield from self._loop_edges(node)
                    yield from self._edges(node.body)
                case Scope() | Guard():
                    yield from self._edges(node.body)

    def _edge(self, node: Instruction) -> Edge:
        flow, first = self._flows[node.signature], self._first_register
        reads = [node.tensors[i] for i in flow.reads]
        writes = [node.tensors[i] for i in flow.writes]
        reads += [self._first_state + i for i in flow.state_reads]
        writes += [self._first_state + i for i in flow.state_writes]
        if node.detail is not None:
            registers = node.detail.registers
            reads += [first + registers[place] for place in flow.register_reads]
            writes += [first + registers[place] for place in flow.register_writes]
            moved = (d.register for d in node.detail.dynamic)
            reads += [first + r for r in moved if r is not None]
        return tuple(reads), tuple(writes)

    def _loop_edges(self, loop: Loop) -> Iterator[Edge]:
        """A loop's counter follows its bounds, and all that its body writes follows the counter."""
        first = self._first_register
        named = (loop.lower_register, loop.upper_register, loop.test, loop.next)
        bounds = tuple(first + r for r in named if r is not None)
        counter = first + loop.index
        yield bounds, (counter,)
        written = {j for node in walk(loop.body) for j in self._edge(node)[1]}
        yield (counter,), tuple(sorted(written))
