"""PyTorch's elementwise operators as few ones: sums, products, maxima, exponentials, comparisons.

Law: an operator is what it computes, not its name; a difference is a sum with a negated term, a
quotient a product with a reciprocal. One that has no rule keeps its name and its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nki_agent.corpus.nodes import ADD, MAX, MIN, MOVE, MUL, Nodes, Operand
from nki_agent.corpus.strides import Reading

CUBE = 3
Value = Operand | float
"""An operand along the axes of the result, or a number."""


@dataclass(slots=True)
class Formula:
    """Writes one operator as nodes; `sizes` are the axes of its result, as they are stored."""

    nodes: Nodes
    sizes: tuple[int, ...]
    dtype: str

    def do(self, op: str, *values: Value) -> Operand:
        """One node, as an operand of the next."""
        operands = [self._operand(value) for value in values]
        place = self.nodes.pointwise(op, operands, dtype=self.dtype)
        node = self.nodes.nodes[place]
        if node.value is not None:
            return place, self._read(0)
        return place, self._read(1)

    def _operand(self, value: Value) -> Operand:
        if isinstance(value, tuple):
            return value
        return self.nodes.add_number(value), self._read(0)

    def _read(self, unit: int) -> Reading:
        axes = []
        stride = unit
        for size in reversed(self.sizes):
            axes.append(((size, stride),) if size != 1 else ())
            stride *= size
        return Reading(tuple(axes[::-1]))

    # What follows is written in terms of those above.

    def add(self, a: Value, b: Value) -> Operand:
        """A sum."""
        return self.do(ADD, a, b)

    def mul(self, *values: Value) -> Operand:
        """A product."""
        return self.do(MUL, *values)

    def sub(self, a: Value, b: Value) -> Operand:
        """A sum with a negated term."""
        return self.do(ADD, a, self.mul(b, -1.0))

    def div(self, a: Value, b: Value) -> Operand:
        """A product with a reciprocal."""
        return self.do(MUL, a, self.recip(b))

    def recip(self, a: Value) -> Operand:
        """One over it."""
        return self.do("recip", a)

    def sigmoid(self, a: Value) -> Operand:
        """The logistic function."""
        return self.do("sigmoid", a)

    def clamp(self, a: Value, low: Value | None = None, high: Value | None = None) -> Operand:
        """Between two limits."""
        found = a if low is None else self.do(MAX, a, low)
        found = found if high is None else self.do(MIN, found, high)
        return found if isinstance(found, tuple) else self._operand(found)

    def softplus(self, a: Value) -> Operand:
        """The logarithm of one more than its exponential."""
        return self.do("log", self.add(self.do("exp", a), 1.0))

    def where(self, condition: Value, a: Value, b: Value) -> Operand:
        """One or the other; a negated condition picks the other way round."""
        if isinstance(condition, tuple):
            node = self.nodes.nodes[condition[0]]
            if node.op == "not" and len(node.edges) == 1:
                found = self.do("not", condition)
                return self.do("where", found, b, a)
        return self.do("where", condition, a, b)

    def power(self, a: Value, exponent: Value) -> Operand:
        """A product, a root, a reciprocal; by its exponent where it is none of these."""
        if isinstance(exponent, tuple):
            return self.do("pow", a, exponent)
        if exponent in {1, 2, CUBE}:
            return self.mul(*[a] * int(exponent), 1.0)
        if exponent == 0.5:  # noqa: PLR2004 - the square root
            return self.do("sqrt", a)
        if exponent < 0:
            return self.recip(self.power(a, -exponent))
        return self.do(f"pow {exponent:g}", a)


Rule = Callable[..., Operand]


def _add(f: Formula, a: Value, b: Value, *, alpha: float = 1.0) -> Operand:
    return f.add(a, b if alpha == 1 else f.mul(b, alpha))


def _sub(f: Formula, a: Value, b: Value, *, alpha: float = 1.0) -> Operand:
    return f.add(a, f.mul(b, -alpha))


def _rsub(f: Formula, a: Value, b: Value, *_: float) -> Operand:
    return f.sub(b, a)


def _div(f: Formula, a: Value, b: Value, *, rounding_mode: str | None = None) -> Operand:
    return f.div(a, b) if rounding_mode is None else f.do(f"div {rounding_mode}", a, b)


def _gelu(f: Formula, a: Value, *, approximate: str = "none") -> Operand:
    if approximate == "none":
        return f.mul(a, 0.5, f.add(f.do("erf", f.mul(a, math.sqrt(0.5))), 1.0))
    inner = f.add(a, f.mul(0.044715, a, a, a))
    return f.mul(a, 0.5, f.add(f.do("tanh", f.mul(inner, math.sqrt(2 / math.pi))), 1.0))


def _elu(
    f: Formula, a: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Operand:
    low = f.mul(f.sub(f.do("exp", f.mul(a, input_scale)), 1.0), alpha)
    return f.mul(f.where(f.do("gt", a, 0.0), a, low), scale)


def _hard_sigmoid(f: Formula, a: Value) -> Operand:
    return f.mul(f.clamp(f.add(a, 3.0), 0.0, 6.0), 1 / 6)


def _addcmul(f: Formula, a: Value, b: Value, c: Value, *, value: float = 1.0) -> Operand:
    return f.add(a, f.mul(b, c, value))


def _addcdiv(f: Formula, a: Value, b: Value, c: Value, *, value: float = 1.0) -> Operand:
    return f.add(a, f.mul(b, f.recip(c), value))


def _silu_backward(f: Formula, grad: Value, a: Value) -> Operand:
    gate = f.sigmoid(a)
    return f.mul(grad, gate, f.add(f.mul(a, f.sub(1.0, gate)), 1.0))


# fmt: off
RULES: dict[str, Rule] = {
    "add": _add, "sub": _sub, "rsub": _rsub, "div": _div,
    "true_divide": _div, "divide": _div, "subtract": _sub,
    "mul": Formula.mul, "multiply": Formula.mul,
    "neg": lambda f, a: f.mul(a, -1.0),
    "positive": lambda f, a: f.do(MOVE, a),
    "reciprocal": Formula.recip,
    "sqrt": lambda f, a: f.do("sqrt", a),
    "rsqrt": lambda f, a: f.recip(f.do("sqrt", a)),
    "square": lambda f, a: f.mul(a, a),
    "pow": Formula.power,
    "exp": lambda f, a: f.do("exp", a),
    "exp2": lambda f, a: f.do("exp", f.mul(a, math.log(2))),
    "expm1": lambda f, a: f.sub(f.do("exp", a), 1.0),
    "log": lambda f, a: f.do("log", a),
    "log1p": lambda f, a: f.do("log", f.add(a, 1.0)),
    "log2": lambda f, a: f.mul(f.do("log", a), 1 / math.log(2)),
    "log10": lambda f, a: f.mul(f.do("log", a), 1 / math.log(10)),
    "sigmoid": Formula.sigmoid,
    "silu": lambda f, a: f.mul(a, f.sigmoid(a)),
    "relu": lambda f, a: f.do(MAX, a, 0.0),
    "clamp": Formula.clamp, "clip": Formula.clamp,
    "hardtanh": lambda f, a, low=-1.0, high=1.0: f.clamp(a, low, high),
    "relu6": lambda f, a: f.clamp(a, 0.0, 6.0),
    "clamp_min": lambda f, a, low: f.clamp(a, low),
    "clamp_max": lambda f, a, high: f.clamp(a, None, high),
    "maximum": lambda f, a, b: f.do(MAX, a, b), "fmax": lambda f, a, b: f.do(MAX, a, b),
    "minimum": lambda f, a, b: f.do(MIN, a, b), "fmin": lambda f, a, b: f.do(MIN, a, b),
    "gt": lambda f, a, b: f.do("gt", a, b),
    "lt": lambda f, a, b: f.do("gt", b, a),
    "ge": lambda f, a, b: f.do("ge", a, b),
    "le": lambda f, a, b: f.do("ge", b, a),
    "eq": lambda f, a, b: f.do("eq", a, b),
    "ne": lambda f, a, b: f.do("ne", a, b),
    "bitwise_not": lambda f, a: f.do("not", a), "logical_not": lambda f, a: f.do("not", a),
    "bitwise_and": lambda f, a, b: f.do("and", a, b),
    "logical_and": lambda f, a, b: f.do("and", a, b),
    "bitwise_or": lambda f, a, b: f.do("or", a, b),
    "logical_or": lambda f, a, b: f.do("or", a, b),
    "bitwise_xor": lambda f, a, b: f.do("xor", a, b),
    "logical_xor": lambda f, a, b: f.do("xor", a, b),
    "where": Formula.where,
    "masked_fill": lambda f, a, mask, value: f.where(mask, value, a),
    "gelu": _gelu,
    "softplus": lambda f, a, beta=1.0, _threshold=20.0: f.mul(f.softplus(f.mul(a, beta)), 1 / beta),
    "mish": lambda f, a: f.mul(a, f.do("tanh", f.softplus(a))),
    "log_sigmoid": lambda f, a: f.mul(f.softplus(f.mul(a, -1.0)), -1.0),
    "elu": _elu,
    "leaky_relu": lambda f, a, slope=0.01: f.where(f.do("gt", a, 0.0), a, f.mul(a, slope)),
    "prelu": lambda f, a, slope: f.where(f.do("gt", a, 0.0), a, f.mul(a, slope)),
    "hardsigmoid": _hard_sigmoid,
    "hardswish": lambda f, a: f.mul(a, _hard_sigmoid(f, a)),
    "addcmul": _addcmul, "addcdiv": _addcdiv,
    "lerp": lambda f, a, b, weight: f.add(a, f.mul(weight, f.sub(b, a))),
    "threshold": lambda f, a, limit, value: f.where(f.do("gt", a, limit), a, value),
    "threshold_backward": lambda f, grad, a, limit: f.where(f.do("gt", a, limit), grad, 0.0),
    "sigmoid_backward": lambda f, grad, y: f.mul(grad, y, f.sub(1.0, y)),
    "tanh_backward": lambda f, grad, y: f.mul(grad, f.sub(1.0, f.mul(y, y))),
    "silu_backward": _silu_backward,
}
# fmt: on


def write_pointwise(
    formula: Formula, name: str, args: Sequence[Value], kwargs: dict[str, Any]
) -> int:
    """The node of an elementwise operator; by its rule, or under its own name."""
    rule = RULES.get(name)
    if rule is not None:
        return rule(formula, *args, **kwargs)[0]
    label = " ".join([name, *(f"{key}={value}" for key, value in sorted(kwargs.items()))])
    return formula.do(label, *args)[0]
