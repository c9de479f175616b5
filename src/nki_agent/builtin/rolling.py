"""Steps of a loop over time, which capture sees one by one, rolled up again.

Law: a sequence of results is rolled up only if every step does the same with what the step before
left (the carried value), with values that stay, and with slices that move by the same distance at
each step; anything else stays unrolled. Positions count backwards from a step's result, so that a
node of step t has the id `results[t] - position`; one that belongs to what a step leaves behind
its result has a negative position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nki_agent.builtin.graph import GraphBuilder, Node, Op, Shape

STEPS_MIN = 4
"""Fewer steps are no loop worth rolling up."""
_LEAVES = frozenset({Op.INPUT, Op.CONST, Op.IOTA})


@dataclass(frozen=True, slots=True)
class Staying:
    """A value from outside the loop."""

    node: int


@dataclass(frozen=True, slots=True)
class Moving:
    """A slice of a value from outside that moves by `step` elements at each step."""

    base: int
    shape: Shape
    strides: Shape
    offset: int
    step: int


@dataclass(frozen=True, slots=True)
class Within:
    """A value of the same step."""

    position: int


@dataclass(frozen=True, slots=True)
class Carried:
    """What the step before left; `initial` is what the first step finds."""

    position: int
    initial: int


Operand = Staying | Moving | Within | Carried


@dataclass(slots=True)
class Rolled:
    """One step: a node for each position with its operands; `num_steps` of them in a row."""

    num_steps: int
    nodes: dict[int, Node] = field(default_factory=dict)
    operands: dict[int, tuple[Operand, ...]] = field(default_factory=dict)

    @property
    def carried(self) -> dict[int, int]:
        """Initial values of the positions whose value the next step reads."""
        found = [o for operands in self.operands.values() for o in operands]
        return {o.position: o.initial for o in found if isinstance(o, Carried)}


def roll_up(builder: GraphBuilder, results: Sequence[int]) -> Rolled | None:
    """One step of the loop that made the results; None if they are not made by such a loop."""
    if len(results) < STEPS_MIN:
        return None
    period = results[1] - results[0]
    if period <= 0 or any(later - earlier != period for earlier, later in pairwise(results)):
        return None
    rolled = Rolled(len(results))
    waiting = [0]
    while waiting:
        position = waiting.pop()
        if position in rolled.operands:
            continue
        operands = _Reader(builder, results, period).read(position)
        if operands is None:
            return None
        rolled.nodes[position] = builder.nodes[results[0] - position]
        rolled.operands[position] = operands
        waiting += [o.position for o in operands if isinstance(o, Within | Carried)]
    return rolled if rolled.carried else None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads what the nodes of one position have in common."""

    builder: GraphBuilder
    results: Sequence[int]
    period: int

    def read(self, position: int) -> tuple[Operand, ...] | None:
        """The operands of a position; None where the steps differ."""
        nodes = self.builder.nodes
        # What follows the last result is not needed, and may be missing.
        steps = [r - position for r in self.results if r - position < len(nodes)]
        made = [nodes[i] for i in steps]
        first = made[0]
        if first.op in _LEAVES or any(_form(n) != _form(first) for n in made):
            return None
        if first.op is Op.VIEW:
            moving = self._moving(steps)
            if moving is not None:
                return (moving,)
            if any((n.strides, n.offset) != (first.strides, first.offset) for n in made):
                return None
        operands = [
            self._operand(position, [n.inputs[k] for n in made]) for k in range(len(first.inputs))
        ]
        found = tuple(o for o in operands if o is not None)
        return found if len(found) == len(operands) else None

    def _operand(self, position: int, inputs: list[int]) -> Operand | None:
        nodes = self.builder.nodes
        if len(set(inputs)) == 1:
            return Staying(inputs[0])
        if all(nodes[i].op is Op.CONST for i in inputs):
            same = len({(nodes[i].value, nodes[i].shape) for i in inputs}) == 1
            return Staying(inputs[0]) if same else None
        if (moving := self._moving(inputs)) is not None:
            return moving
        steps = {later - earlier for earlier, later in pairwise(inputs[1:])}
        if steps != {self.period}:
            return None
        is_same = _form(nodes[inputs[0]]) == _form(nodes[inputs[1]])
        if inputs[1] - inputs[0] == self.period and is_same:
            return Within(self.results[0] - inputs[0])
        left = self.results[0] - inputs[1]
        return Carried(left, inputs[0]) if left < position + self.period else None

    def _moving(self, ids: Sequence[int]) -> Moving | None:
        nodes = [self.builder.nodes[i] for i in ids]
        first = nodes[0]
        same = all(
            n.op is Op.VIEW and (n.inputs, n.shape, n.strides) == _layout(first) for n in nodes
        )
        if not same:
            return None
        steps = {b.offset - a.offset for a, b in pairwise(nodes)}
        if len(steps) != 1:
            return None
        return Moving(first.inputs[0], first.shape, first.strides, first.offset, steps.pop())


def _layout(node: Node) -> tuple[object, ...]:
    return (node.inputs, node.shape, node.strides)


def _form(node: Node) -> tuple[object, ...]:
    return (node.op, node.function, node.shape, node.dtype, node.axes, len(node.inputs))
