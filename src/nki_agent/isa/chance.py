"""Declarations of the pseudo-random instructions."""

from __future__ import annotations

from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.declaration import (
    Call,
    Declaration,
    any_of,
    engine_option,
    output,
    scalar,
    source,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ON_CHIP, Engine, Memory
from nki_agent.isa.passes import per_element
from nki_agent.isa.rules import columns, same_dtype, same_free, same_partitions

GEN3, GEN4 = 3, 4
WORD_BYTES = 4
FP32 = (DType.FLOAT32,)
INTEGERS = (DType.INT8, DType.INT16, DType.INT32, DType.UINT8, DType.UINT16, DType.UINT32)
STATE_WORDS = {Engine.GPSIMD: 6, Engine.VECTOR: 24}
"""32-bit words of one lane's XORWOW state."""
UNIFORM = (
    *(DType.FLOAT8_E4M3, DType.FLOAT8_E5M2, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32),
    *(DType.TFLOAT32, *INTEGERS),
)


def _rng_engines(call: Call) -> tuple[Engine, ...]:
    on_psum = call.get("dst").memory is Memory.PSUM
    if call.chip.generation >= GEN3 and not on_psum:
        return (Engine.VECTOR, Engine.GPSIMD)
    return (Engine.VECTOR,)


def _state_engines(call: Call) -> tuple[Engine, ...]:
    operand = call.signature.operands[0]
    engines = [] if operand.memory is Memory.PSUM else [Engine.GPSIMD]
    if call.chip.generation >= GEN4:
        engines.append(Engine.VECTOR)
    return tuple(engines)


def _state_words(call: Call) -> Iterator[Diagnostic]:
    engine = call.signature.engine or Engine.GPSIMD
    wanted = STATE_WORDS.get(engine)
    operand = call.signature.operands[0]
    if wanted is not None and operand.pattern.free_elems != wanted:
        yield Diagnostic(
            code="NK304",
            what=f"free size of `{operand.role}` of `{call.declaration.name}` on {engine.value}",
            got=str(operand.pattern.free_elems),
            limit=str(wanted),
            hint="6 words a partition on gpsimd, 24 on vector",
        )


def _one_word(call: Call) -> Iterator[Diagnostic]:
    seeds = call.get("src_seeds")
    if seeds.shape != (1, 1) or seeds.dtype.itemsize != WORD_BYTES:
        yield Diagnostic(
            code="NK304",
            what="`src_seeds` of `set_rng_seed`",
            got=f"{list(seeds.shape)} {seeds.dtype.value}",
            limit="[1, 1] of a 32-bit dtype",
            hint="pass one 32-bit value",
        )


def _probability(call: Call) -> Iterator[Diagnostic]:
    data, prob = call.get("data"), call.find("prob")
    if prob is None:
        return
    good = prob.dtype.is_float if data.dtype.is_float else prob.dtype is DType.FLOAT32
    if not good:
        yield Diagnostic(
            code="NK302",
            what="dtype of `prob` of `dropout`",
            got=prob.dtype.value,
            limit="float32" if data.dtype.is_integer else "a float dtype",
            hint="keep probabilities in a float32 tile of shape (P, 1)",
        )


CHANCE = (
    Declaration(
        name="dropout",
        parameters=(
            output("dst", *ON_CHIP),
            source("data", *ON_CHIP),
            scalar("prob", *ON_CHIP, dtypes=tuple(d for d in DType if d.is_float)),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "data", "prob"),
            same_free("dst", "data"),
            same_dtype("dst", "data"),
            columns("prob"),
            _probability,
        ),
        cycles=per_element("data"),
        page="nki.isa.dropout",
    ),
    Declaration(
        name="rng",
        parameters=(output("dst", *ON_CHIP, dtypes=INTEGERS), engine_option(Engine.VECTOR)),
        engines=_rng_engines,
        cycles=per_element("dst"),
        page="nki.isa.rng",
    ),
    Declaration(
        name="set_rng_seed",
        parameters=(source("src_seeds", *ON_CHIP),),
        engines=any_of(Engine.VECTOR),
        rules=(_one_word,),
        cycles=per_element("src_seeds"),
        page="nki.isa.set_rng_seed",
    ),
    Declaration(
        name="rand_set_state",
        parameters=(
            source("src_seeds", Memory.SBUF, dtypes=(DType.UINT32,)),
            engine_option(Engine.GPSIMD),
        ),
        engines=_state_engines,
        rules=(_state_words,),
        cycles=per_element("src_seeds"),
        page="nki.isa.rand_set_state",
        first_generation=GEN3,
    ),
    Declaration(
        name="rand_get_state",
        parameters=(output("dst", *ON_CHIP, dtypes=(DType.UINT32,)), engine_option(Engine.GPSIMD)),
        engines=_state_engines,
        rules=(_state_words,),
        cycles=per_element("dst"),
        page="nki.isa.rand_get_state",
        first_generation=GEN3,
    ),
    Declaration(
        name="rand2",
        parameters=(
            output("dst", *ON_CHIP, dtypes=UNIFORM),
            scalar("min", *ON_CHIP, dtypes=FP32),
            scalar("max", *ON_CHIP, dtypes=FP32),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(same_partitions("dst", "min", "max"), columns("min", "max")),
        cycles=per_element("dst", 0.25),
        page="nki.isa.rand2",
        first_generation=GEN4,
    ),
)
"""Instructions that draw pseudo-random numbers or handle their state."""
