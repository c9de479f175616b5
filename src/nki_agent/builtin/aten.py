"""Core ATen operators as nodes of our graph: one rule for each name.

Law: a rule receives tensors as `Ref` and plain Python values as they are, and returns the node of
its result; what it does not cover raises UnsupportedError, never a guess. No import of PyTorch.
The rules of NumPy's functions are these too, where the names mean the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.indexing import INDEXING, find_bag
from nki_agent.builtin.losses import LOSSES
from nki_agent.builtin.moves import MOVES
from nki_agent.builtin.norms import NORMS
from nki_agent.builtin.rules import Ref, Rules, Value
from nki_agent.builtin.scans import scan_rule
from nki_agent.builtin.steps import stack_rule
from nki_agent.builtin.windows import WINDOWS

Result = Ref | tuple[Ref | None, ...]
Rule = Callable[..., Result]
Axes = Sequence[int] | None

EXACT_SOFTPLUS = 16.0
"""Above it log(1 + exp(x)) equals x in float32, so PyTorch's threshold changes nothing."""
FLOAT32_EPS = 1.1920928955078125e-07
SQUARES = 2


# -- arithmetic -----------------------------------------------------------------------------------


def _scaled(rules: Rules, y: Value, alpha: float) -> Value:
    return y if alpha == 1 else rules.mul(y, alpha)


def _add(rules: Rules, x: Value, y: Value, alpha: float = 1) -> Ref:
    return rules.add(x, _scaled(rules, y, alpha))


def _sub(rules: Rules, x: Value, y: Value, alpha: float = 1) -> Ref:
    return rules.sub(x, _scaled(rules, y, alpha))


def _rsub(rules: Rules, x: Value, y: Value, alpha: float = 1) -> Ref:
    return rules.sub(y, _scaled(rules, x, alpha))


def _div(rules: Rules, x: Value, y: Value, rounding_mode: str | None = None) -> Ref:
    quotient = rules.div(x, y)
    match rounding_mode:
        case None:
            return quotient
        case "floor":
            return rules.unary("floor", quotient)
        case _:
            return rules.unary("trunc", quotient)


def _addcmul(rules: Rules, x: Ref, y: Ref, z: Ref, value: float = 1) -> Ref:
    return _add(rules, x, rules.mul(y, z), value)


def _addcdiv(rules: Rules, x: Ref, y: Ref, z: Ref, value: float = 1) -> Ref:
    return _add(rules, x, rules.div(y, z), value)


def _lerp(rules: Rules, x: Ref, y: Ref, weight: Value) -> Ref:
    return rules.add(x, rules.mul(rules.sub(y, x), weight))


# -- activations ----------------------------------------------------------------------------------


def _gelu(rules: Rules, x: Ref, approximate: str = "none") -> Ref:
    return rules.unary("gelu_apprx_tanh" if approximate == "tanh" else "gelu", x)


def _leaky_relu(rules: Rules, x: Ref, negative_slope: float = 0.01) -> Ref:
    if 0 <= negative_slope <= 1:
        return rules.binary("maximum", x, rules.mul(x, negative_slope))
    return _prelu(rules, x, negative_slope)


def _prelu(rules: Rules, x: Ref, weight: Value) -> Ref:
    below = rules.mul(rules.clamp(x, None, 0.0), weight)
    return rules.add(rules.clamp(x, 0.0, None), below)


def _elu(rules: Rules, x: Ref, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Ref:
    # exp sees only the negative part, so that large inputs do not overflow; as a relu that part
    # and all that follows from it are the Scalar Engine's.
    below = rules.unary("relu", rules.unary("negative", x))
    tail = rules.mul(_expm1(rules, below, -input_scale), alpha)
    return rules.mul(rules.add(rules.clamp(x, 0.0, None), tail), scale)


def _celu(rules: Rules, x: Ref, alpha: float = 1) -> Ref:
    return _elu(rules, x, alpha, 1, 1 / alpha)


def _hardtanh(rules: Rules, x: Ref, min_val: float = -1, max_val: float = 1) -> Ref:
    return rules.clamp(x, min_val, max_val)


def _hardsigmoid(rules: Rules, x: Ref) -> Ref:
    return rules.clamp(rules.add(rules.mul(x, 1 / 6), 0.5), 0.0, 1.0)


def _hardswish(rules: Rules, x: Ref) -> Ref:
    return rules.mul(_hardsigmoid(rules, x), x)


def _softplus(rules: Rules, x: Ref, beta: float = 1, threshold: float = 20) -> Ref:
    if threshold < EXACT_SOFTPLUS:
        raise UnsupportedError("softplus", f"its threshold {threshold} changes the function")
    return rules.mul(rules.unary("softplus", rules.mul(x, beta)), 1 / beta)


def _log_sigmoid(rules: Rules, x: Ref) -> Result:
    return rules.mul(rules.unary("softplus", rules.mul(x, -1.0)), -1.0), None


def _threshold(rules: Rules, x: Ref, threshold: float, value: float) -> Ref:
    return rules.where(rules.binary("greater", x, threshold), x, value)


def _softshrink(rules: Rules, x: Ref, lambd: float = 0.5) -> Ref:
    return rules.sub(x, rules.clamp(x, -lambd, lambd))


def _hardshrink(rules: Rules, x: Ref, lambd: float = 0.5) -> Ref:
    return rules.where(rules.binary("greater", rules.unary("abs", x), lambd), x, 0.0)


def _log1p(rules: Rules, x: Value) -> Ref:
    # log(u) loses what u = 1 + x rounds away; its first-order share is put back.
    above = rules.add(x, 1.0)
    lost = rules.sub(x, rules.sub(above, 1.0))
    return rules.add(rules.unary("log", above), rules.div(lost, above))


def _expm1(rules: Rules, x: Value, factor: float = 1.0) -> Ref:
    # exp(x) - 1 cancels near 0; tanh(x / 2) * (exp(x) + 1) is the same without it.
    scaled = x if factor == 1 else rules.mul(x, factor)
    half = rules.unary("tanh", rules.mul(x, factor / 2))
    return rules.mul(half, rules.add(rules.unary("exp", scaled), 1.0))


def _exp2(rules: Rules, x: Value) -> Ref:
    return rules.unary("exp", rules.mul(x, math.log(2)))


def _log_to_base(base: float, rules: Rules, x: Value) -> Ref:
    return rules.mul(rules.unary("log", x), 1 / math.log(base))


def _sinh(rules: Rules, x: Value) -> Ref:
    both = _expm1(rules, x), _expm1(rules, rules.mul(x, -1.0))
    return rules.mul(rules.sub(*both), 0.5)


def _cosh(rules: Rules, x: Value) -> Ref:
    both = rules.unary("exp", x), rules.unary("exp", rules.mul(x, -1.0))
    return rules.mul(rules.add(*both), 0.5)


def _erfc(rules: Rules, x: Ref) -> Ref:
    return rules.sub(1.0, rules.unary("erf", x))


# -- choices --------------------------------------------------------------------------------------


def _clamp(rules: Rules, x: Ref, *bounds: Value | None, **named: Value | None) -> Ref:
    low, high, *_ = (*bounds, None, None)
    return rules.clamp(x, named.get("min", low), named.get("max", high))


def _where(rules: Rules, condition: Ref, x: Value, y: Value) -> Ref:
    return rules.where(condition, x, y)


def _masked_fill(rules: Rules, x: Ref, mask: Ref, value: Value) -> Ref:
    return rules.where(mask, value, x)


def _logical_not(rules: Rules, x: Ref) -> Ref:
    return rules.binary("equal", x, 0.0)


# -- reductions -----------------------------------------------------------------------------------


def _sum(rules: Rules, x: Ref, dim: Axes = None, keepdim: int = 0, **_: object) -> Ref:
    if dim is not None and not keepdim and (bag := find_bag(rules, x, dim)) is not None:
        return bag
    return rules.reduce("add", x, dim, keepdims=bool(keepdim))


def _mean(rules: Rules, x: Ref, dim: Axes = None, keepdim: int = 0, **_: object) -> Ref:
    return rules.mean(x, dim, keepdims=bool(keepdim))


def _prod(rules: Rules, x: Ref, dim: int | None = None, keepdim: int = 0, **_: object) -> Ref:
    return rules.reduce("multiply", x, None if dim is None else [dim], keepdims=bool(keepdim))


def _extreme(function: str, rules: Rules, x: Ref, dim: Axes = (), keepdim: int = 0) -> Ref:
    return rules.reduce(function, x, dim, keepdims=bool(keepdim))


def _extreme_of_axis(
    function: str, rules: Rules, x: Ref, dim: int | None = None, keepdim: int = 0
) -> Result:
    if dim is None:
        return rules.reduce(function, x, None)
    return rules.reduce(function, x, [dim], keepdims=bool(keepdim)), None


def _vector_norm(
    rules: Rules, x: Ref, order: float = 2, dim: Axes = None, keepdim: int = 0, **_: object
) -> Ref:
    keepdims = bool(keepdim)
    if order == math.inf:
        return rules.reduce("maximum", rules.unary("abs", x), dim, keepdims=keepdims)
    if order == 1:
        return rules.reduce("add", rules.unary("abs", x), dim, keepdims=keepdims)
    if order == SQUARES:
        total = rules.reduce("add", rules.unary("square", x), dim, keepdims=keepdims)
        return rules.named(rules.unary("sqrt", total), "norm")
    raise UnsupportedError("linalg_vector_norm", f"norms of order {order} are not covered")


def _norm(
    rules: Rules, x: Ref, order: float | None = None, dim: Axes = None, keepdim: int = 0
) -> Ref:
    return _vector_norm(rules, x, SQUARES if order is None else order, dim, keepdim)


def _logsumexp(rules: Rules, x: Ref, dim: Sequence[int], keepdim: int = 0) -> Ref:
    top = rules.reduce("maximum", x, dim, keepdims=True)
    exps = rules.unary("exp", rules.sub(x, top))
    total = rules.reduce("add", exps, dim, keepdims=bool(keepdim))
    return rules.add(rules.unary("log", total), top if keepdim else rules.squeeze(top, dim))


# -- rows -----------------------------------------------------------------------------------------


def _softmax(function: str, rules: Rules, x: Ref, dim: int, *_: object, **__: object) -> Ref:
    builder = rules.builder
    rank = len(rules.node(x).shape)
    axis = dim % rank if rank else 0
    if rank == 0 or axis == rank - 1:
        return Ref(builder.softmax(x.id, function=function))
    # Along the last axis, between two transposes.
    order = [*(a for a in range(rank) if a != axis), axis]
    turned = builder.softmax(builder.permute(x.id, order), function=function)
    return Ref(builder.permute(turned, [order.index(a) for a in range(rank)]))


def _layer_norm(
    rules: Rules, x: Ref, shape: Sequence[int], weight: Ref | None, bias: Ref | None, eps: float
) -> Result:
    axes = list(range(-len(shape), 0))
    mean = rules.mean(x, axes, keepdims=True)
    centred = rules.named(rules.sub(x, mean), "centred")
    variance = rules.mean(rules.unary("square", centred), axes, keepdims=True)
    rules.named(variance, "variance")
    scale = rules.named(rules.unary("rsqrt", rules.add(variance, eps)), "inverse_std")
    result = rules.named(rules.mul(centred, scale), "normed")
    if weight is not None:
        result = rules.mul(result, weight)
    if bias is not None:
        result = rules.add(result, bias)
    return result, mean, scale


def _rms_norm(
    rules: Rules, x: Ref, shape: Sequence[int], weight: Ref | None, eps: float | None
) -> Result:
    axes = list(range(-len(shape), 0))
    power = rules.mean(rules.unary("square", x), axes, keepdims=True)
    shifted = rules.add(power, FLOAT32_EPS if eps is None else eps)
    scale = rules.named(rules.unary("rsqrt", shifted), "inverse_rms")
    result = rules.named(rules.mul(x, scale), "normed")
    return (result if weight is None else rules.mul(result, weight)), scale


# -- matrix products ------------------------------------------------------------------------------


def _mm(rules: Rules, x: Ref, y: Ref) -> Ref:
    return rules.matmul(x, y)


def _addmm(rules: Rules, bias: Ref, x: Ref, y: Ref, beta: float = 1, alpha: float = 1) -> Ref:
    product = _scaled(rules, rules.matmul(x, y), alpha)
    return rules.add(product, _scaled(rules, bias, beta))


def _dot(rules: Rules, x: Ref, y: Ref) -> Ref:
    return rules.reduce("add", rules.mul(x, y), None)


def _loss(function: str, rules: Rules, x: Ref, y: Ref, reduction: int = 1) -> Ref:
    error = rules.unary(function, rules.sub(x, y))
    match reduction:
        case 0:
            return error
        case 1:
            return rules.mean(error, None)
        case _:
            return rules.reduce("add", error, None)


# -- the table ------------------------------------------------------------------------------------


def _unary(function: str, rules: Rules, x: Value) -> Ref:
    return rules.unary(function, x)


def _binary(function: str, rules: Rules, x: Value, y: Value) -> Ref:
    return rules.binary(function, x, y)


_UNARY = {
    "abs": "abs", "neg": "negative", "exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "reciprocal": "reciprocal", "tanh": "tanh", "sigmoid": "sigmoid", "relu": "relu",
    "silu": "silu", "mish": "mish", "erf": "erf", "sin": "sin", "cos": "cos", "square": "square",
    "sgn": "sign", "sign": "sign", "floor": "floor", "ceil": "ceil", "round": "round",
    "trunc": "trunc",
}  # fmt: skip
_BINARY = {
    "mul": "multiply", "pow": "power", "maximum": "maximum", "minimum": "minimum", "eq": "equal",
    "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "fmax": "maximum", "fmin": "minimum", "clamp_min": "maximum", "clamp_max": "minimum",
}  # fmt: skip

ATEN: dict[str, Rule] = {
    **MOVES,
    **NORMS,
    **WINDOWS,
    **INDEXING,
    **LOSSES,
    **{name: partial(_unary, function) for name, function in _UNARY.items()},
    **{name: partial(_binary, function) for name, function in _BINARY.items()},
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "div": _div,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "lerp": _lerp,
    "gelu": _gelu,
    "leaky_relu": _leaky_relu,
    "_prelu_kernel": _prelu,
    "elu": _elu,
    "celu": _celu,
    "hardtanh": _hardtanh,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "softplus": _softplus,
    "log_sigmoid_forward": _log_sigmoid,
    "threshold": _threshold,
    "softshrink": _softshrink,
    "hardshrink": _hardshrink,
    "log1p": _log1p,
    "expm1": _expm1,
    "exp2": _exp2,
    "log2": partial(_log_to_base, 2.0),
    "log10": partial(_log_to_base, 10.0),
    "sinh": _sinh,
    "cosh": _cosh,
    "erfc": _erfc,
    "clamp": _clamp,
    "where": _where,
    "masked_fill": _masked_fill,
    "logical_not": _logical_not,
    "sum": _sum,
    "mean": _mean,
    "prod": _prod,
    "amax": partial(_extreme, "maximum"),
    "amin": partial(_extreme, "minimum"),
    "max": partial(_extreme_of_axis, "maximum"),
    "min": partial(_extreme_of_axis, "minimum"),
    "linalg_vector_norm": _vector_norm,
    "norm": _norm,
    "logsumexp": _logsumexp,
    "_softmax": partial(_softmax, "softmax"),
    "_safe_softmax": partial(_softmax, "softmax"),
    "_log_softmax": partial(_softmax, "log_softmax"),
    "native_layer_norm": _layer_norm,
    "_fused_rms_norm": _rms_norm,
    "stack": stack_rule,
    "cumsum": partial(scan_rule, "add"),
    "cumprod": partial(scan_rule, "multiply"),
    "mm": _mm,
    "mv": lambda rules, x, y: rules.matvec(x, y),
    "dot": _dot,
    "mse_loss": partial(_loss, "square"),
    "l1_loss": partial(_loss, "abs"),
    "bmm": _mm,
    "addmm": _addmm,
    "baddbmm": _addmm,
}
"""The rule for each operator, by its name without overload and trailing underscore."""


def call_rule(rules: Rules, name: str, *args: Any, **options: Any) -> tuple[Ref | None, ...]:
    """The nodes of an operator's results.

    Raises:
        KeyError: there is no rule.
        UnsupportedError: the rule does not cover these arguments.
    """
    made = ATEN[name](rules, *args, **options)
    return made if isinstance(made, tuple) else (made,)
