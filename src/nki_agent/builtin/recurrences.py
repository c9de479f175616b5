"""Linear recurrences that a loop over time computes, as one scan over all steps.

Law: where each step does h = a * h + b, elementwise and with a and b that know nothing of h, all
steps are one SCAN; everything else of the loop is computed for all steps at once. Time lies along
the last axis, where the scan runs; what is read from outside the loop is turned that way at its
source, while it is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nki_agent.builtin.graph import (
    ELEMENTWISE,
    GraphBuilder,
    Node,
    Op,
    contiguous_strides,
)
from nki_agent.builtin.rolling import Carried, Moving, Operand, Rolled, Staying, Within
from nki_agent.builtin.rules import Ref, Rules
from nki_agent.builtin.scans import BEFORE, add_scan


class NotLinearError(Exception):
    """A step does more than a linear recurrence; only this module and its caller see it."""


@dataclass(frozen=True, slots=True)
class _Linear:
    """factor * state + rest; None stands for 1 and for 0."""

    factor: Ref | None
    rest: Ref | None


def scan_steps(rules: Rules, rolled: Rolled, dim: int) -> Ref:
    """All results of a loop with the time along `dim`.

    Raises:
        NotLinearError: a step is no linear recurrence.
    """
    return _Scan(rules, rolled).stacked(dim)


@dataclass(slots=True)
class _Scan:
    rules: Rules
    rolled: Rolled
    rank: int = 0
    order: list[int] = field(default_factory=list)
    _made: dict[int, Ref] = field(default_factory=dict)
    _sources: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.rolled.carried) != 1:
            raise NotLinearError
        if any(node.op not in ELEMENTWISE for node in self.rolled.nodes.values()):
            raise NotLinearError
        shapes = [node.shape for node in self.rolled.nodes.values()]
        self.rank = max(len(shape) for shape in shapes)
        largest = next(iter(self.rolled.carried))
        sizes = self.rolled.nodes[largest].shape
        # The longest axis next to the time, so that it fills the partitions.
        self.order = list(range(self.rank))
        if len(sizes) == self.rank > 0:
            longest = max(self.order, key=lambda axis: (sizes[axis], axis))
            self.order.append(self.order.pop(self.rules.agreed.agree(longest)))

    def stacked(self, dim: int) -> Ref:
        """The results in the reference's order of axes."""
        made = self._value(0)
        rank = self.rank
        # Axes here: those of a step in `order`, then time.
        back = [self.order.index(axis) for axis in range(rank)]
        position = dim % (rank + 1)
        back.insert(position, rank)
        return Ref(self.rules.builder.permute(made.id, back))

    # -- values of all steps ----------------------------------------------------------------------
    def _value(self, position: int) -> Ref:
        if position not in self._made:
            if position in self.rolled.carried:
                self._made[position] = self._scan(position)
            else:
                self._made[position] = self._again(position)
        return self._made[position]

    def _again(self, position: int) -> Ref:
        """The node for all steps at once."""
        node = self.rolled.nodes[position]
        self.rules.builder.origin = node.origin
        inputs = [self._operand(o) for o in self.rolled.operands[position]]
        return _repeat(self.rules, node, inputs)

    def _operand(self, operand: Operand) -> Ref:
        match operand:
            case Staying():
                return self._spread(operand.node)
            case Moving():
                return self._slices(operand)
            case Within():
                return self._value(operand.position)
            case Carried():
                return self._before(operand)

    def _before(self, operand: Carried) -> Ref:
        """The states that the steps find."""
        if self.rolled.num_steps == 1:
            raise NotLinearError
        self._value(operand.position)
        return Ref(add_scan(self.rules.builder, "linear" + BEFORE, self._sources))

    def _initial(self, initial: int, shape: tuple[int, ...]) -> Ref:
        node = self.rules.builder.nodes[initial]
        if node.op is not Op.CONST or node.value != 0.0:
            raise NotLinearError
        return Ref(self.rules.builder.const(0.0, (*shape[:-1], 1), node.dtype))

    # -- operands from outside --------------------------------------------------------------------
    def _spread(self, node_id: int) -> Ref:
        """A value of one step that stays, the same at all times."""
        node = self.rules.builder.nodes[node_id]
        if not node.shape:
            return Ref(node_id)
        strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
        offset = node.offset if node.op is Op.VIEW else 0
        moving = Moving(self.rules.builder.base_of(node_id), node.shape, strides, offset, step=0)
        return self._slices(moving)

    def _slices(self, operand: Moving) -> Ref:
        """Slices that move with time; a value that stays has one."""
        missing = self.rank - len(operand.shape)
        shape = [*(1,) * missing, *operand.shape]
        strides = [*(0,) * missing, *operand.strides]
        count = self.rolled.num_steps if operand.step else 1
        shape = [*(shape[axis] for axis in self.order), count]
        strides = [*(strides[axis] for axis in self.order), operand.step]
        if not operand.step:
            strides[-1] = 1
        return turned(self.rules, operand.base, shape, strides, operand.offset)

    # -- the recurrence ---------------------------------------------------------------------------
    def _scan(self, position: int) -> Ref:
        found = self._linear(position, position)
        if found.factor is None and found.rest is None:
            raise NotLinearError
        node = self.rolled.nodes[position]
        if len(node.shape) != self.rank:
            raise NotLinearError
        shape = (*(node.shape[axis] for axis in self.order), self.rolled.num_steps)
        self._initial(self.rolled.carried[position], shape)
        rest = found.rest if found.rest is not None else 0.0
        factor = found.factor if found.factor is not None else 1.0
        self._sources = [
            self.rules.broadcast(self.rules.lift(value), shape).id for value in (factor, rest)
        ]
        return Ref(add_scan(self.rules.builder, "linear", self._sources))

    def _linear(self, position: int, state: int) -> _Linear:
        """The node as factor * state + rest."""
        node = self.rolled.nodes[position]
        sides = [self._side(o, state) for o in self.rolled.operands[position]]
        if all(side is None for side in sides):
            raise NotLinearError
        if node.op is Op.UNARY and node.function == "copy" and node.dtype.is_float:
            assert sides[0] is not None
            return sides[0]
        if node.op is not Op.BINARY:
            raise NotLinearError
        given = [
            None if side is not None else self._operand(o)
            for side, o in zip(sides, self.rolled.operands[position], strict=True)
        ]
        return self._combined(node.function, sides, given)

    def _side(self, operand: Operand, state: int) -> _Linear | None:
        """An operand that depends on the state; None for one that does not."""
        if isinstance(operand, Carried):
            return _Linear(None, None)
        if isinstance(operand, Within) and self._depends(operand.position):
            return self._linear(operand.position, state)
        return None

    def _depends(self, position: int) -> bool:
        return any(
            isinstance(o, Carried) or (isinstance(o, Within) and self._depends(o.position))
            for o in self.rolled.operands[position]
        )

    def _combined(
        self, function: str, sides: Sequence[_Linear | None], given: Sequence[Ref | None]
    ) -> _Linear:
        rules = self.rules
        first, second = sides
        match function, first, second:
            case "multiply", _Linear(), None:
                return _scaled(rules, first, given[1])
            case "multiply", None, _Linear():
                return _scaled(rules, second, given[0])
            case "add", _Linear(), None:
                return _Linear(first.factor, _sum(rules, first.rest, given[1]))
            case "add", None, _Linear():
                return _Linear(second.factor, _sum(rules, given[0], second.rest))
            case "subtract", _Linear(), None:
                assert given[1] is not None
                minus = rules.mul(given[1], -1.0)
                return _Linear(first.factor, _sum(rules, first.rest, minus))
            case "subtract", None, _Linear():
                minus = Ref(rules.lift(-1.0).id)
                turned_sign = _scaled(rules, second, minus)
                return _Linear(turned_sign.factor, _sum(rules, given[0], turned_sign.rest))
            case "add", _Linear(), _Linear():
                factor = rules.add(*(s.factor or rules.lift(1.0) for s in (first, second)))
                return _Linear(factor, _sum(rules, first.rest, second.rest))
            case _:
                raise NotLinearError


def _sum(rules: Rules, first: Ref | None, second: Ref | None) -> Ref | None:
    if first is None or second is None:
        return first or second
    return rules.add(first, second)


def _scaled(rules: Rules, side: _Linear, by: Ref | None) -> _Linear:
    assert by is not None
    factor = by if side.factor is None else rules.mul(side.factor, by)
    return _Linear(factor, None if side.rest is None else rules.mul(side.rest, by))


def _repeat(rules: Rules, node: Node, inputs: Sequence[Ref]) -> Ref:
    """An elementwise node over other inputs."""
    builder = rules.builder
    match node.op:
        case Op.UNARY:
            return Ref(builder.unary(node.function, inputs[0].id, node.dtype))
        case Op.BINARY:
            return Ref(builder.binary(node.function, inputs[0].id, inputs[1].id, node.dtype))
        case _:
            return Ref(builder.where(*(i.id for i in inputs)))


def turned(
    rules: Rules, base_id: int, shape: Sequence[int], strides: Sequence[int], offset: int
) -> Ref:
    """A view; of an elementwise value that it walks whole in another order, the value made anew.

    So the operands are turned and not the result, which may be much larger.
    """
    builder: GraphBuilder = rules.builder
    base = builder.nodes[base_id]
    axes = _axes_of(base, shape, strides, offset)
    if base.op in ELEMENTWISE and axes is not None:
        inputs = [_seen_along(rules, i, base.shape, axes) for i in base.inputs]
        return rules.named(_repeat(rules, base, inputs), base.label)
    return Ref(builder.view(base_id, shape=tuple(shape), strides=tuple(strides), offset=offset))


def _axes_of(
    base: Node, shape: Sequence[int], strides: Sequence[int], offset: int
) -> list[int | None] | None:
    """The axis of the base that each axis of a view is; None if the view is more than that."""
    if offset:
        return None
    walk = contiguous_strides(base.shape)
    found: list[int | None] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            found.append(None)
            continue
        same = [a for a, n in enumerate(base.shape) if n == size and walk[a] == stride]
        if len(same) != 1:
            return None
        found.append(same[0])
    taken = {axis for axis in found if axis is not None}
    whole = {axis for axis, size in enumerate(base.shape) if size != 1}
    return found if taken == whole else None


def _seen_along(
    rules: Rules, node_id: int, shape: Sequence[int], axes: Sequence[int | None]
) -> Ref:
    """An operand of the base along the axes of its view."""
    builder = rules.builder
    node = builder.nodes[node_id]
    if node.op is Op.CONST:
        return Ref(builder.const(node.value, (), node.dtype))
    missing = len(shape) - len(node.shape)
    strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
    sizes, walk = [], []
    for axis in axes:
        own = None if axis is None or axis < missing else axis - missing
        sizes.append(1 if own is None else node.shape[own])
        walk.append(1 if own is None else strides[own])
    offset = node.offset if node.op is Op.VIEW else 0
    return turned(rules, builder.base_of(node_id), sizes, walk, offset)
