"""Faults of numerics: what is forgotten in stable forms, wrong factors, short sums, lost masks."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from nki_agent.corpus.faults.fault import Fault, FaultFamily, Place
from nki_agent.corpus.faults.kernel_text import KernelText, dotted, find_keyword

EPSILON_MAX = 1e-2
ACTIVATIONS = ("nisa.activation", "nisa.activation_reduce")
ELEMENTWISE = (*ACTIVATIONS, "nisa.tensor_scalar", "nisa.scalar_tensor_tensor")
NEAR_OPERATORS: Mapping[str, str] = {
    "nl.add": "nl.subtract",
    "nl.exp": "nl.square",
    "nl.gelu": "nl.gelu_apprx_tanh",
    "nl.gelu_apprx_tanh": "nl.gelu",
    "nl.less_equal": "nl.less",
    "nl.maximum": "nl.minimum",
    "nl.minimum": "nl.maximum",
    "nl.multiply": "nl.add",
    "nl.rsqrt": "nl.sqrt",
    "nl.sigmoid": "nl.silu",
    "nl.silu": "nl.sigmoid",
    "nl.sqrt": "nl.rsqrt",
    "nl.subtract": "nl.add",
}
"""What is easily taken for each other."""


def _missing_maximum(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls(*ACTIVATIONS):
        op, bias = find_keyword(call, "op"), find_keyword(call, "bias")
        if op is not None and bias is not None and dotted(op.value) == "nl.exp":
            name = kernel.text(bias.value)
            cause = f"the exponential is taken without `{name}`, so large values overflow"
            yield Place(changes=(kernel.drop_keyword(bias),), cause=cause)


def _missing_epsilon(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls(*ELEMENTWISE):
        for keyword in call.keywords:
            match keyword:
                case ast.keyword(
                    arg="bias" | "operand0" | "operand1", value=ast.Constant(value=float(epsilon))
                ) if 0 < epsilon < EPSILON_MAX:
                    change = kernel.replace(keyword.value, "0.0")
                    cause = f"the epsilon of {epsilon:g} is missing, so tiny values blow up"
                    yield Place(changes=(change,), cause=cause)
                case _:
                    pass


def _missing_scale(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls(*ACTIVATIONS):
        scale = find_keyword(call, "scale")
        if scale is not None:
            cause = f"the factor `{kernel.text(scale.value)}` is missing"
            yield Place(changes=(kernel.drop_keyword(scale),), cause=cause)


def _wrong_factor(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls(*ELEMENTWISE):
        for keyword in call.keywords:
            if keyword.arg not in {"scale", "bias", "operand0", "operand1"}:
                continue
            right = kernel.text(keyword.value)
            match keyword.value:
                case ast.BinOp(op=ast.Div(), right=divisor):
                    wrong = kernel.text(divisor)
                case ast.BinOp(op=ast.Pow(), left=base, right=ast.UnaryOp(operand=power)):
                    wrong = f"{kernel.text(base)} ** {kernel.text(power)}"
                case ast.Constant(value=float(value)) if value not in {0.0, 1.0, -1.0}:
                    wrong = repr(value * 10)
                case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float(value))):
                    wrong = repr(value)
                case _:
                    continue
            cause = f"`{keyword.arg}` is `{wrong}` where the reference has `{right}`"
            yield Place(changes=(kernel.replace(keyword.value, wrong),), cause=cause)


def _short_sum(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("nl.ndarray"):
        dtype, buffer = find_keyword(call, "dtype"), find_keyword(call, "buffer")
        if dtype is None or buffer is None or dotted(buffer.value) not in {"nl.sbuf", "nl.psum"}:
            continue
        if dotted(dtype.value) == "nl.float32":
            change = kernel.replace(dtype.value, "nl.bfloat16")
            statement = kernel.statement(call)
            name = "the tile"
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = f"`{statement.targets[0].id}`"
            cause = f"{name} is in bfloat16 where it must keep float32"
            yield Place(changes=(change,), cause=cause)


def _weak_mask(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("nisa.affine_select"):
        value = find_keyword(call, "on_false_value")
        if value is not None and kernel.text(value.value) != "0.0":
            right = kernel.text(value.value)
            cause = f"what is masked becomes 0 where it must become `{right}`"
            yield Place(changes=(kernel.replace(value.value, "0.0"),), cause=cause)


def _missing_mask(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("nisa.affine_select"):
        target, kept = find_keyword(call, "dst"), find_keyword(call, "on_true_tile")
        if target is not None and kept is not None:
            text = (
                f"nisa.tensor_copy(dst={kernel.text(target.value)}, src={kernel.text(kept.value)})"
            )
            cause = "the mask is left out: every element is taken"
            yield Place(changes=(kernel.replace(call, text),), cause=cause)


def _lost_sign(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("nisa.tensor_reduce"):
        negate = find_keyword(call, "negate")
        if negate is not None:
            cause = "the maximum is not negated, so it is added where it must be subtracted"
            yield Place(changes=(kernel.drop_keyword(negate),), cause=cause)


def _near_operator(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls():
        for keyword in call.keywords:
            right = dotted(keyword.value)
            if keyword.arg in {"op", "op0", "op1", "cmp_op"} and right in NEAR_OPERATORS:
                wrong = NEAR_OPERATORS[right]
                cause = f"`{keyword.arg}` is `{wrong}`, and the reference needs `{right}`"
                yield Place(changes=(kernel.replace(keyword.value, wrong),), cause=cause)


def _operands_reversed(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("nisa.tensor_tensor"):
        op = find_keyword(call, "op")
        first, second = find_keyword(call, "data1"), find_keyword(call, "data2")
        if op is None or first is None or second is None:
            continue
        if dotted(op.value) in {"nl.subtract", "nl.divide", "nl.power"}:
            left, right = kernel.text(first.value), kernel.text(second.value)
            cause = f"`{dotted(op.value)}` gets `{right}` first, and the order counts"
            yield Place(
                changes=(kernel.replace(first.value, right), kernel.replace(second.value, left)),
                cause=cause,
            )


FAULTS = tuple(
    Fault(name=name, family=FaultFamily.NUMERICS, find=find)
    for name, find in {
        "missing-maximum": _missing_maximum,
        "missing-epsilon": _missing_epsilon,
        "missing-scale": _missing_scale,
        "wrong-factor": _wrong_factor,
        "short-sum": _short_sum,
        "weak-mask": _weak_mask,
        "missing-mask": _missing_mask,
        "lost-sign": _lost_sign,
        "near-operator": _near_operator,
        "operands-reversed": _operands_reversed,
    }.items()
)
