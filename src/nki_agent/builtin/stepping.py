"""Loops over time that are no linear recurrence, as a loop in the kernel.

Law: each value of a step becomes one of all steps, with time as its first axis, computed one step
at a time: a node in a loop has that loop's number. What a step leaves for the next lies in HBM,
one row for each step behind the initial one: a STATE node reads the rows, and the PARTS node of the
same name is where they are written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nki_agent.builtin.graph import (
    GraphBuilder,
    Node,
    Op,
    Shape,
    UnsupportedError,
    contiguous_strides,
)
from nki_agent.builtin.rolling import Carried, Moving, Operand, Rolled, Staying, Within
from nki_agent.builtin.rules import Ref, Rules


def step_through(rules: Rules, rolled: Rolled, dim: int) -> Ref:
    """All results of a loop with the time along `dim`.

    Raises:
        UnsupportedError: a step does what no loop in a kernel is written for.
    """
    return _Steps(rules, rolled).stacked(dim)


@dataclass(slots=True)
class _Steps:
    rules: Rules
    rolled: Rolled
    rank: int = 0
    _states: dict[int, int] = field(default_factory=dict)
    _made: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = self.rolled.nodes.values()
        self.rank = max(len(node.shape) for node in nodes if node.op is not Op.VIEW)

    def stacked(self, dim: int) -> Ref:
        """The results, with time where the reference stacks them."""
        builder = self.builder
        builder.loop = 1 + max(node.loop for node in builder.nodes)
        for position in self.rolled.carried:
            self._states[position] = self._state(position)
        result = self._value(0)
        histories = {p: self._history(p) for p in self.rolled.carried}
        builder.loop = 0
        shape = self.rolled.nodes[0].shape
        if 0 in histories:
            step = builder.nodes[self._states[0]].num_elems // (self.rolled.num_steps + 1)
            result = builder.view(
                histories[0],
                shape=(self.rolled.num_steps, *shape),
                strides=(step, *contiguous_strides(shape)),
                offset=step,
            )
        else:
            result = self._narrowed(result, shape)
        order = list(range(1, len(shape) + 1))
        order.insert(dim % (len(shape) + 1), 0)
        return Ref(builder.permute(result, order))

    def _narrowed(self, value: int, shape: Shape) -> int:
        """Without the axes that were put in to make all ranks equal."""
        gone = self.rank - len(shape)
        return self.builder.permute(value, [0, *range(1 + gone, 1 + self.rank)])

    @property
    def builder(self) -> GraphBuilder:
        """Where the nodes go."""
        return self.rules.builder

    # -- what a step leaves -----------------------------------------------------------------------
    def _padded(self, shape: Shape) -> Shape:
        return (*(1,) * (self.rank - len(shape)), *shape)

    def _state(self, position: int) -> int:
        node = self.rolled.nodes[position]
        rows = self.rolled.num_steps + 1
        name = f"state_{self.builder.loop}_{len(self._states) + 1}"
        return self.builder.add(
            op=Op.STATE, shape=(rows, *self._padded(node.shape)), dtype=node.dtype, name=name
        )

    def _history(self, position: int) -> int:
        """Where the initial value and those of all steps lie."""
        state = self.builder.nodes[self._states[position]]
        value = self._value(position)
        loop, self.builder.loop = self.builder.loop, 0
        initial = self._spread(self.rolled.carried[position])
        if self.builder.nodes[initial].shape != (1, *state.shape[1:]):
            initial = self.rules.broadcast(Ref(initial), (1, *state.shape[1:])).id
        own = self.builder.unary("copy", initial, state.dtype)
        self.builder.loop = loop
        copied = self.builder.unary("copy", value, state.dtype)
        return self.builder.add(
            op=Op.PARTS,
            shape=state.shape,
            dtype=state.dtype,
            inputs=(own, copied),
            places=(0, state.num_elems // state.shape[0]),
            name=state.name,
        )

    # -- values of all steps ----------------------------------------------------------------------
    def _value(self, position: int) -> int:
        if position not in self._made:
            node = self.rolled.nodes[position]
            self._made[position] = self._again(position, node)
        return self._made[position]

    def _again(self, position: int, node: Node) -> int:
        operands = self.rolled.operands[position]
        self.builder.origin = node.origin
        if node.op is Op.VIEW:
            return self._view(node, operands[0])
        inputs = [self._operand(o) for o in operands]
        builder = self.builder
        match node.op:
            case Op.UNARY:
                return builder.unary(node.function, inputs[0], node.dtype)
            case Op.BINARY:
                return builder.binary(node.function, inputs[0], inputs[1], node.dtype)
            case Op.WHERE:
                return builder.where(*inputs)
            case Op.REDUCE:
                axes = [axis - len(self._input_shape(operands[0])) for axis in node.axes]
                return builder.reduce(node.function, inputs[0], axes, keepdims=True)
            case Op.SOFTMAX:
                return builder.softmax(inputs[0], function=node.function)
            case Op.MATMUL:
                return self._product(node, inputs[0], inputs[1])
            case _:
                raise UnsupportedError(
                    node.origin, f"`{node.op.value}` in a loop over time is not covered"
                )

    def _input_shape(self, operand: Operand) -> Shape:
        match operand:
            case Staying():
                return self.builder.nodes[operand.node].shape
            case Moving():
                return operand.shape
            case Within() | Carried():
                return self.rolled.nodes[operand.position].shape

    def _product(self, node: Node, first: int, second: int) -> int:
        """A matrix times a vector is a sum along rows, which needs no turning."""
        builder = self.builder
        if node.shape[-1] != 1:
            return builder.matmul(first, second, node.dtype)
        order = [*range(self.rank - 1), self.rank, self.rank - 1]
        row = builder.permute(second, order)
        return builder.reduce("add", builder.binary("multiply", first, row), [-1], keepdims=True)

    # -- operands ---------------------------------------------------------------------------------
    def _operand(self, operand: Operand) -> int:
        match operand:
            case Staying():
                return self._spread(operand.node)
            case Moving():
                return self._slices(operand)
            case Within():
                return self._value(operand.position)
            case Carried():
                return self._before(operand.position)

    def _before(self, position: int) -> int:
        """What the step before left: the rows of the state but for the last."""
        state = self.builder.nodes[self._states[position]]
        shape = (self.rolled.num_steps, *state.shape[1:])
        return self.builder.view(
            self._states[position], shape=shape, strides=contiguous_strides(state.shape)
        )

    def _spread(self, node_id: int) -> int:
        node = self.builder.nodes[node_id]
        if not node.shape:
            return node_id
        strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
        base = self.builder.base_of(node_id)
        offset = node.offset if node.op is Op.VIEW else 0
        return self._slices(Moving(base, node.shape, strides, offset, step=0))

    def _slices(self, operand: Moving) -> int:
        missing = self.rank - len(operand.shape)
        count = self.rolled.num_steps if operand.step else 1
        return self.builder.view(
            operand.base,
            shape=(count, *self._padded(operand.shape)),
            strides=(operand.step, *(0,) * missing, *operand.strides),
            offset=operand.offset,
        )

    def _view(self, node: Node, operand: Operand) -> int:
        """A view of a value of the step: the same of each step's part."""
        if isinstance(operand, Moving | Staying):
            return self._operand(operand)
        value = self._operand(operand)
        seen = self.builder.nodes[value]
        base = self.builder.base_of(value)
        inner = seen.num_elems // seen.shape[0]
        walk = seen.strides if seen.op is Op.VIEW else contiguous_strides(seen.shape)
        rest = [s for s, n in zip(walk[1:], seen.shape[1:], strict=True) if n != 1]
        plain = [
            s
            for s, n in zip(contiguous_strides(seen.shape[1:]), seen.shape[1:], strict=True)
            if n != 1
        ]
        if rest != plain:
            raise UnsupportedError(node.origin, "a view of a view in a loop over time")
        missing = self.rank - len(node.shape)
        step = walk[0] if seen.op is Op.VIEW else inner
        return self.builder.view(
            base,
            shape=(seen.shape[0], *self._padded(node.shape)),
            strides=(step, *(0,) * missing, *node.strides),
            offset=(seen.offset if seen.op is Op.VIEW else 0) + node.offset,
        )
