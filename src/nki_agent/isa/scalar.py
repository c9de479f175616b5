"""Declarations of the Scalar Engine's activation instructions."""

from __future__ import annotations

from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.declaration import (
    Call,
    Cycles,
    Declaration,
    Kind,
    any_of,
    option,
    output,
    scalar,
    source,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ON_CHIP, Engine, ReduceCommand
from nki_agent.isa.passes import streaming
from nki_agent.isa.rules import columns, reduction_op, same_free, same_partitions

FP32 = (DType.FLOAT32,)
BIAS = tuple(d for d in DType if d is not DType.TFLOAT32)
GEN3 = 3
COMMANDS = (
    ReduceCommand.IDLE,
    ReduceCommand.RESET,
    ReduceCommand.REDUCE,
    ReduceCommand.RESET_REDUCE,
)


def _scalar_bias(call: Call) -> Iterator[Diagnostic]:
    bias = call.signature.find("bias")
    if bias is not None and bias.is_immediate and call.chip.generation < GEN3:
        yield Diagnostic(
            code="NK311",
            what=f"a number as `bias` of `activation` on NeuronCore-v{call.chip.generation}",
            got="not available",
            limit="a tile of shape (P, 1)",
            hint="fill a (P, 1) tile with `nisa.memset` and pass it as `bias`",
        )


def _command(call: Call) -> Iterator[Diagnostic]:
    value = call.attribute("reduce_cmd")
    if value not in COMMANDS:
        yield Diagnostic(
            code="NK308",
            what=f"`reduce_cmd` of `{call.declaration.name}`",
            got=str(value),
            limit=" or ".join(COMMANDS),
            hint="use reset_reduce for the first tile, reduce for the next ones",
        )
    reduces = value in (ReduceCommand.REDUCE, ReduceCommand.RESET_REDUCE)
    if reduces and call.attribute("reduce_op") is None:
        yield Diagnostic(
            code="NK308",
            what=f"`reduce_cmd={value}` of `{call.declaration.name}` without `reduce_op`",
            hint="add `reduce_op=nl.add`",
        )


def _cycles(call: Call, engine: Engine) -> float:
    extra = call.chip.read_accumulator_cycles if call.find("reduce_res") is not None else 0
    return _DATA(call, engine) + extra


_DATA: Cycles = streaming("data")


PAIRS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)


def _pairs(call: Call) -> Iterator[Diagnostic]:
    pair = (call.attribute("op0"), call.attribute("op1"))
    if pair not in PAIRS:
        yield Diagnostic(
            code="NK307",
            what="`op0` and `op1` of `activate2`",
            got=f"nl.{pair[0]} and nl.{pair[1]}",
            limit=", ".join(f"({a}, {b})" for a, b in PAIRS),
            hint="use nl.bypass for a step that does nothing",
        )


def _one_dtype(call: Call) -> Iterator[Diagnostic]:
    first, second = call.find("imm0"), call.find("imm1")
    if first and second and first.dtype is not second.dtype:
        yield Diagnostic(
            code="NK302",
            what="dtype of `imm1` of `activate2`",
            got=second.dtype.value,
            limit=f"{first.dtype.value}, as `imm0`",
            hint="give both tiles one dtype",
        )


SCALAR = (
    Declaration(
        name="activation",
        parameters=(
            output("dst", *ON_CHIP),
            option("op", Kind.ACTIVATION_OP),
            source("data", *ON_CHIP),
            scalar("bias", *ON_CHIP, default=None, dtypes=BIAS),
            scalar("scale", *ON_CHIP, default=1.0, dtypes=FP32),
            option("reduce_op", Kind.ALU_OP, None),
            output("reduce_res", *ON_CHIP, default=None),
            option("reduce_cmd", Kind.ENUM, ReduceCommand.IDLE, choices=ReduceCommand),
        ),
        engines=any_of(Engine.SCALAR),
        rules=(
            same_partitions("dst", "data", "bias", "scale", "reduce_res"),
            same_free("dst", "data"),
            columns("bias", "scale", "reduce_res"),
            reduction_op("reduce_op", "add"),
            _scalar_bias,
            _command,
        ),
        cycles=_cycles,
        page="nki.isa.activation",
    ),
    Declaration(
        name="activation_reduce",
        parameters=(
            output("dst", *ON_CHIP),
            option("op", Kind.ACTIVATION_OP),
            source("data", *ON_CHIP),
            option("reduce_op", Kind.ALU_OP),
            output("reduce_res", *ON_CHIP),
            scalar("bias", *ON_CHIP, default=None, dtypes=BIAS),
            scalar("scale", *ON_CHIP, default=1.0, dtypes=FP32),
        ),
        engines=any_of(Engine.SCALAR),
        rules=(
            same_partitions("dst", "data", "reduce_res", "bias", "scale"),
            same_free("dst", "data"),
            columns("reduce_res", "bias", "scale"),
            reduction_op("reduce_op", "add"),
            _scalar_bias,
        ),
        cycles=_cycles,
        page="nki.isa.activation_reduce",
    ),
    Declaration(
        name="activate2",
        parameters=(
            output("dst", *ON_CHIP),
            option("op", Kind.ACTIVATION_OP),
            source("data", *ON_CHIP),
            scalar("imm0", *ON_CHIP),
            scalar("imm1", *ON_CHIP),
            option("op0", Kind.ALU_OP),
            option("op1", Kind.ALU_OP),
            scalar("relu_param", *ON_CHIP, default=0.0),
            option("reverse0", Kind.FLAG, default=False),
            option("reverse1", Kind.FLAG, default=False),
            option("reduce_op", Kind.ALU_OP, None),
            output("reduce_res", *ON_CHIP, default=None),
            option("reduce_cmd", Kind.ENUM, ReduceCommand.IDLE, choices=ReduceCommand),
        ),
        engines=any_of(Engine.SCALAR),
        rules=(
            same_partitions("dst", "data", "imm0", "imm1", "relu_param", "reduce_res"),
            same_free("dst", "data"),
            columns("imm0", "imm1", "relu_param", "reduce_res"),
            reduction_op("reduce_op", "add", "maximum", "minimum", "abs_max", "abs_min"),
            _pairs,
            _one_dtype,
            _command,
        ),
        cycles=_cycles,
        page="nki.isa.activate2",
        first_generation=4,
    ),
)
"""Instructions whose home is the Scalar Engine."""
