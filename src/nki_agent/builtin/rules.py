"""The vocabulary in which operators are taken apart: functions of values that add nodes.

Law: a value is a node (`Ref`) or a plain number; numbers become constants where they meet a node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from nki_agent.builtin.graph import (
    COMPARISONS,
    GraphBuilder,
    Node,
    Op,
    Shape,
    contiguous_strides,
)
from nki_agent.builtin.lanes import is_long, reduce_vector
from nki_agent.isa.dtype import DType


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor argument: the id of its node."""

    id: int


Value = Ref | float


@dataclass(slots=True)
class Agreed:
    """What depends on sizes and must be the same at every shape set: the first capture decides."""

    before: Sequence[int] = ()
    """What an earlier capture decided, in order."""
    made: list[int] = field(default_factory=list)

    def agree(self, wanted: int) -> int:
        """What is best here, unless an earlier capture chose otherwise."""
        place = len(self.made)
        self.made.append(self.before[place] if place < len(self.before) else wanted)
        return self.made[-1]


@dataclass(frozen=True, slots=True)
class Rules:
    """Adds nodes to one graph."""

    builder: GraphBuilder
    agreed: Agreed = field(default_factory=Agreed)

    def node(self, value: Value) -> Node:
        """The node behind a value; numbers become constants."""
        return self.builder.nodes[self.lift(value).id]

    def lift(self, value: Value) -> Ref:
        """A value as a node."""
        return value if isinstance(value, Ref) else Ref(self.builder.const(float(value)))

    def named(self, x: Ref, label: str) -> Ref:
        """Say what a value is called in the kernel."""
        self.builder.label(x.id, label)
        return x

    def unary(self, function: str, x: Value) -> Ref:
        """One function of one value."""
        return Ref(self.builder.unary(function, self.lift(x).id))

    def binary(self, function: str, x: Value, y: Value) -> Ref:
        """One function of two values."""
        return Ref(self.builder.binary(function, self.lift(x).id, self.lift(y).id))

    def add(self, x: Value, y: Value) -> Ref:
        """X + y."""
        return self.binary("add", x, y)

    def sub(self, x: Value, y: Value) -> Ref:
        """X - y."""
        return self.binary("subtract", x, y)

    def mul(self, x: Value, y: Value) -> Ref:
        """X * y."""
        return self.binary("multiply", x, y)

    def div(self, x: Value, y: Value) -> Ref:
        """X / y."""
        return self.binary("divide", x, y)

    def where(self, condition: Ref, x: Value, y: Value) -> Ref:
        """X where the condition holds, else y."""
        node = self.node(condition)
        if node.op is Op.BINARY and node.function == "equal":
            inner, other = (self.node(Ref(i)) for i in node.inputs)
            if inner.dtype is DType.BOOL and other.op is Op.CONST and other.value == 0:
                return self.where(Ref(inner.id), y, x)
        if node.op is Op.BINARY and node.function in ("logical_and", "logical_or"):
            # One choice after the other, so that each may be an instruction of its own.
            left, right = (Ref(i) for i in node.inputs)
            if all(self.node(part).dtype is DType.BOOL for part in (left, right)):
                chosen = self.where(right, x, y)
                pair = (chosen, y) if node.function == "logical_and" else (x, chosen)
                return self.where(left, *pair)
        shifted = self._shifted(condition, self.lift(x), self.lift(y))
        if shifted is not None:
            return shifted
        return Ref(self.builder.where(condition.id, self.lift(x).id, self.lift(y).id))

    def _shifted(self, condition: Ref, x: Ref, y: Ref) -> Ref | None:
        """`y - c` where a comparison holds, else `y`: `y - c * comparison`, with no choice.

        What is not chosen has 0 taken away, so that every value stays as it was.
        """
        node, asked = self.node(x), self.node(condition)
        is_shift = node.op is Op.BINARY and node.function == "subtract" and node.inputs[0] == y.id
        if not is_shift or asked.op is not Op.BINARY or asked.function not in COMPARISONS:
            return None
        amount = self.builder.nodes[node.inputs[1]]
        if amount.op is not Op.CONST or not math.isfinite(amount.value):
            return None
        chosen = self.named(Ref(self.builder.cast(condition.id, node.dtype)), "is_chosen")
        return self.sub(y, chosen if amount.value == 1 else self.mul(chosen, Ref(amount.id)))

    def clamp(self, x: Value, low: Value | None, high: Value | None) -> Ref:
        """Between two bounds, either of which may be missing."""
        result = self.lift(x)
        if low is not None:
            result = self.binary("maximum", result, low)
        if high is not None:
            result = self.binary("minimum", result, high)
        return result

    def reduce(
        self, function: str, x: Ref, axes: Sequence[int] | None, *, keepdims: bool = False
    ) -> Ref:
        """A reduction; no axes means all of them."""
        rank = len(self.node(x).shape)
        wanted = list(axes) if axes is not None and len(axes) else list(range(rank))
        if is_long(self.builder, x.id):
            return Ref(reduce_vector(self.builder, function, x.id, keepdims=keepdims))
        return Ref(self.builder.reduce(function, x.id, wanted, keepdims=keepdims))

    def size(self, x: Ref, axes: Sequence[int] | None) -> int:
        """Elements that a reduction over `axes` adds up."""
        shape = self.node(x).shape
        wanted = axes if axes is not None and len(axes) else range(len(shape))
        return math.prod(shape[axis] for axis in wanted)

    def mean(self, x: Ref, axes: Sequence[int] | None, *, keepdims: bool = False) -> Ref:
        """The mean over `axes`."""
        total = self.reduce("add", x, axes, keepdims=keepdims)
        return self.named(self.mul(total, 1 / self.size(x, axes)), "mean")

    def squeeze(self, x: Ref, axes: Sequence[int]) -> Ref:
        """Drop axes of one element."""
        node = self.node(x)
        gone = {axis % len(node.shape) for axis in axes}
        kept = [axis for axis in range(len(node.shape)) if axis not in gone]
        return Ref(self.builder.permute(x.id, kept))

    def broadcast(self, x: Ref, shape: Shape) -> Ref:
        """A value repeated along the axes that it lacks."""
        node = self.node(x)
        if node.shape == shape:
            return x
        walk = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
        strides = [0] * (len(shape) - len(node.shape))
        strides += [0 if n == 1 else s for n, s in zip(node.shape, walk, strict=True)]
        base = self.builder.base_of(x.id)
        view = self.builder.view(base, shape=shape, strides=tuple(strides), offset=node.offset)
        return Ref(view)

    def matvec(self, x: Ref, y: Ref) -> Ref:
        """A matrix times a vector."""
        column = Ref(self.builder.append_axis(y.id))
        return self.squeeze(self.matmul(x, column), [-1])

    def matmul(self, x: Ref, y: Ref) -> Ref:
        """X @ y for operands of rank 2 or more."""
        return Ref(self.builder.matmul(x.id, y.id, self.node(x).dtype))
