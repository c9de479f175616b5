"""Faults of names: operators, dtypes, instructions and keywords that NKI does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from nki_agent.corpus.faults.fault import Fault, FaultFamily, Place
from nki_agent.corpus.faults.kernel_text import KernelText, dotted

OPERATORS: Mapping[str, tuple[str, ...]] = {
    "nl.add": ("nl.sum_op", "nl.plus"),
    "nl.bfloat16": ("nl.bf16", "nl.bfloat"),
    "nl.copy": ("nl.identity", "nl.id"),
    "nl.exp": ("nl.exponential", "nl.exp2e"),
    "nl.float32": ("nl.fp32", "nl.float"),
    "nl.gelu": ("nl.gelu_erf", "nl.GELU"),
    "nl.gelu_apprx_tanh": ("nl.gelu_tanh", "nl.gelu_approx_tanh"),
    "nl.less_equal": ("nl.le", "nl.is_le"),
    "nl.log": ("nl.ln", "nl.logarithm"),
    "nl.maximum": ("nl.maxi", "nl.max_op"),
    "nl.minimum": ("nl.mini", "nl.min_op"),
    "nl.multiply": ("nl.mul", "nl.mult"),
    "nl.power": ("nl.pow",),
    "nl.private_hbm": ("nl.hbm_private",),
    "nl.psum": ("nl.psum_buf", "nl.PSUM"),
    "nl.relu": ("nl.ReLU", "nl.relu_op"),
    "nl.rsqrt": ("nl.reciprocal_sqrt", "nl.inv_sqrt"),
    "nl.sbuf": ("nl.SBUF", "nl.sb"),
    "nl.shared_hbm": ("nl.hbm_shared", "nl.shared_dram"),
    "nl.sigmoid": ("nl.logistic", "nl.sigm"),
    "nl.silu": ("nl.swish", "nl.silu_op"),
    "nl.sqrt": ("nl.square_root",),
    "nl.square": ("nl.pow2", "nl.sqr"),
    "nl.subtract": ("nl.sub", "nl.minus"),
    "nl.tanh": ("nl.hyperbolic_tangent", "nl.Tanh"),
}
INSTRUCTIONS: Mapping[str, tuple[str, ...]] = {
    "nisa.activation": ("nisa.act", "nisa.scalar_activation"),
    "nisa.activation_reduce": ("nisa.activation_accumulate", "nisa.act_reduce"),
    "nisa.affine_select": ("nisa.select_affine", "nisa.mask_select"),
    "nisa.dma_copy": ("nisa.dma_load", "nisa.copy", "nisa.dma"),
    "nisa.memset": ("nisa.fill", "nisa.set"),
    "nisa.nc_matmul": ("nisa.matmul", "nisa.matmult"),
    "nisa.nc_transpose": ("nisa.transpose", "nisa.tensor_transpose"),
    "nisa.reciprocal": ("nisa.inverse", "nisa.recip"),
    "nisa.scalar_tensor_tensor": ("nisa.scalar_tensor", "nisa.fused_scalar_tensor"),
    "nisa.tensor_copy": ("nisa.copy", "nisa.psum_copy"),
    "nisa.tensor_reduce": ("nisa.reduce", "nisa.row_reduce"),
    "nisa.tensor_scalar": ("nisa.scalar_op", "nisa.tensor_scalar_op"),
    "nisa.tensor_tensor": ("nisa.elementwise", "nisa.tensor_tensor_op"),
}
KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "axis": ("dim", "axes"),
    "bias": ("offset_by", "shift"),
    "buffer": ("memory", "space"),
    "data": ("src", "input", "x"),
    "data1": ("lhs", "a"),
    "data2": ("rhs", "b"),
    "dst": ("out", "output"),
    "dtype": ("type", "data_type"),
    "moving": ("rhs", "weights"),
    "op": ("func", "operator"),
    "op0": ("op", "operator0"),
    "operand0": ("scalar", "operand"),
    "reduce_op": ("reduction", "op_reduce"),
    "scale": ("multiplier", "alpha"),
    "src": ("data", "source"),
    "stationary": ("lhs", "weight"),
    "value": ("fill", "fill_value"),
}


def _misspelt_operator(kernel: KernelText) -> Iterator[Place]:
    yield from _rename(kernel, OPERATORS, "is no name of `nki.language`")


def _unknown_instruction(kernel: KernelText) -> Iterator[Place]:
    yield from _rename(kernel, INSTRUCTIONS, "is no instruction of `nki.isa`")


def _rename(kernel: KernelText, names: Mapping[str, tuple[str, ...]], why: str) -> Iterator[Place]:
    for node in kernel.find(ast.Attribute):
        right = dotted(node)
        for wrong in names.get(right, ()):
            cause = f"`{wrong}` {why}; what it means is `{right}`"
            yield Place(changes=(kernel.replace(node, wrong),), cause=cause)


def _wrong_keyword(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls():
        name = dotted(call.func)
        if not name.startswith(("nisa.", "nl.")):
            continue
        for keyword in call.keywords:
            for wrong in KEYWORDS.get(keyword.arg or "", ()):
                text = f"{wrong}={kernel.text(keyword.value)}"
                cause = f"`{name}` takes `{keyword.arg}`, and has no parameter `{wrong}`"
                yield Place(changes=(kernel.replace(keyword, text),), cause=cause)


def _missing_import(kernel: KernelText) -> Iterator[Place]:
    for node in kernel.find(ast.Import):
        assert isinstance(node, ast.Import)
        short = node.names[0].asname
        change = kernel.drop_statement(node)
        if short and change is not None:
            cause = f"`{short}` is used and never imported"
            yield Place(changes=(change,), cause=cause)


def _operator_as_text(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls():
        for keyword in call.keywords:
            name = dotted(keyword.value)
            if keyword.arg in {"op", "op0", "op1"} and name.startswith("nl."):
                text = f'"{name.removeprefix("nl.")}"'
                cause = f"`{keyword.arg}` is given as text, and must be the operator `{name}`"
                yield Place(changes=(kernel.replace(keyword.value, text),), cause=cause)


FAULTS = tuple(
    Fault(name=name, family=FaultFamily.NAMES, find=find)
    for name, find in {
        "misspelt-operator": _misspelt_operator,
        "unknown-instruction": _unknown_instruction,
        "wrong-keyword": _wrong_keyword,
        "missing-import": _missing_import,
        "operator-as-text": _operator_as_text,
    }.items()
)
