"""The instructions of a Program in a row, and where on it each tensor's scope begins and ends.

Cores come one after the other, loop bodies once. A tensor that is touched in a loop which its scope
does not lie in is there before the loop begins and after it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nki_agent.program.records import Guard, Instruction, Loop, Node, Program, Scope
from nki_agent.sim.forms import PARTIAL
from nki_agent.sim.usage import NEVER, Usage, find_usage

Path = tuple[int, ...]
"""Numbers of the loops around an instruction, outermost first."""


@dataclass(slots=True)
class Order:
    """See the module's docstring; all indices count along `instructions`."""

    instructions: list[Instruction] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Index of the first instruction of each core."""
    paths: list[Path] | None = None
    """None where one core runs without loops."""
    has_offsets: bool = False
    """Whether some instruction has run-time offsets."""
    has_partial: bool = False
    """Whether some instruction writes a part of its destination that only a run decides."""
    loops: dict[int, tuple[int, int]] = field(default_factory=dict)
    """First instruction of each loop, and one past its last."""

    @property
    def is_run_dependent(self) -> bool:
        """Whether what an instruction writes, and whether it runs, may differ between runs."""
        return self.paths is not None or self.has_offsets or self.has_partial

    def core_of(self, index: int) -> int:
        """The core that runs an instruction."""
        return sum(index >= start for start in self.starts[1:])


def find_order(program: Program) -> Order:
    """Go over all nodes once."""
    order = Order()
    body = program.bodies[0] if program.bodies else ()
    if len(program.bodies) <= 1 and set(map(type, body)) <= {Instruction}:
        order.instructions = list(body)  # type: ignore[arg-type]
        order.starts = [0]
    else:
        order.paths = []
        for nodes in program.bodies:
            order.starts.append(len(order.instructions))
            _add(order, order.paths, nodes, ())
    order.has_offsets = any(i.detail is not None for i in order.instructions)
    order.has_partial = any(s.op in PARTIAL for s in program.signatures)
    return order


def _add(order: Order, paths: list[Path], nodes: Sequence[Node], path: Path) -> None:
    for node in nodes:
        match node:
            case Instruction():
                order.instructions.append(node)
                paths.append(path)
            case Loop():
                start = len(order.instructions)
                _add(order, paths, node.body, (*path, node.number))
                order.loops[node.number] = (start, len(order.instructions))
            case Scope():
                _add(order, paths, node.body, path)
            case Guard():
                raise AssertionError("guards are of the older dialect")


@dataclass(slots=True)
class Spans:
    """When tensors begin and end."""

    usage: Usage
    last: list[int]
    """The instruction after which a tensor ends; NEVER where it ends with a loop."""
    opens: dict[int, list[int]] = field(default_factory=dict)
    """Tensors that begin in front of a loop, by its number."""
    closes: dict[int, list[int]] = field(default_factory=dict)
    widened: Usage | None = None
    """Usage for tensors that share addresses: use in a loop counts for all of the outermost one."""
    shared: frozenset[int] = frozenset()
    """Tensors that both cores touch."""


def find_spans(program: Program, order: Order) -> Spans:
    """Where each tensor begins and ends."""
    usage = find_usage(program, order.instructions)
    spans = Spans(usage, list(usage.last), widened=usage)
    paths = order.paths
    if paths is None:
        return spans
    first, last = list(usage.first), list(usage.last)
    for index, tensor in enumerate(program.tensors):
        if usage.first[index] == NEVER:
            continue
        depth = len(tensor.scope)
        begin, end = paths[usage.first[index]], paths[usage.last[index]]
        if len(begin) > depth:
            spans.opens.setdefault(begin[depth], []).append(index)
        if len(end) > depth:
            spans.closes.setdefault(end[depth], []).append(index)
            spans.last[index] = NEVER
        if begin:
            first[index] = order.loops[begin[0]][0]
        if end:
            last[index] = order.loops[end[0]][1] - 1
    spans.widened = replace(usage, first=first, last=last)
    if len(order.starts) > 1:
        middle = order.starts[1]
        spans.shared = frozenset(
            index
            for index, start in enumerate(usage.first)
            if start != NEVER and start < middle <= usage.last[index]
        )
    return spans
