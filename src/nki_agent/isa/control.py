"""Declarations of registers and of what two cores do together.

Registers live in the engines' sequencers; an instruction names them apart from its operands.
"""

from __future__ import annotations

from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.declaration import (
    Call,
    Declaration,
    Kind,
    any_of,
    engine_option,
    option,
    output,
    source,
)
from nki_agent.isa.enums import ANY_HBM, DmaEngine, Engine, Memory
from nki_agent.isa.passes import free_of_charge
from nki_agent.isa.rules import same_dtype, same_free, same_partitions
from nki_agent.isa.signature import Operand

GEN3 = 3
WORD_BYTES = 4
CORES = (0, 1)
GPSIMD_BYTES = {4: 1024, 2: 512, 1: 256}
"""Bytes of a partition that the GpSimd's own DMA moves, by item size."""
REACH = (Memory.SBUF, *ANY_HBM)
ANY_ENGINE = (Engine.SYNC, Engine.GPSIMD, Engine.VECTOR, Engine.SCALAR, Engine.TENSOR)


def _one_element(operand: Operand, name: str) -> Iterator[Diagnostic]:
    elems = operand.pattern.partitions * operand.pattern.free_elems
    if elems != 1 or operand.dtype.itemsize > WORD_BYTES:
        yield Diagnostic(
            code="NK304",
            what=f"`{operand.role}` of `{name}`",
            got=f"{list(operand.shape)} {operand.dtype.value}",
            limit="one element of at most 32 bits",
            hint="slice one element: `t[0:1, 0:1]`",
        )


def _register_tensor(call: Call) -> Iterator[Diagnostic]:
    for operand in call.signature.operands:
        yield from _one_element(operand, call.declaration.name)


def _two_cores(call: Call) -> Iterator[Diagnostic]:
    cores = call.attribute("cores")
    if cores != CORES:
        yield Diagnostic(
            code="NK308",
            what="`cores` of `core_barrier`",
            got=str(cores),
            limit="(0, 1)",
            hint="the two cores of a logical core wait for each other",
        )


def _ranks(call: Call) -> Iterator[Diagnostic]:
    for name in ("send_to_rank", "recv_from_rank"):
        if call.attribute(name) not in CORES:
            yield Diagnostic(
                code="NK308",
                what=f"`{name}` of `sendrecv`",
                got=str(call.attribute(name)),
                limit="0 or 1",
                hint="the other core is `1 - nl.program_id(0)`",
            )


def _gpsimd_size(call: Call) -> Iterator[Diagnostic]:
    src = call.get("src")
    if call.attribute("dma_engine") != DmaEngine.GPSIMD_DMA:
        return
    limit = GPSIMD_BYTES[src.dtype.itemsize]
    size = src.pattern.free_elems * src.dtype.itemsize
    if size > limit:
        yield Diagnostic(
            code="NK305",
            what="bytes of a partition of `sendrecv` with dma_engine=gpsimd_dma",
            got=str(size),
            limit=str(limit),
            hint="send in several pieces, or use the default DMA engine",
        )


CONTROL = (
    Declaration(
        name="register_move",
        parameters=(option("dst", Kind.REGISTER), option("src", Kind.WORD)),
        engines=any_of(*ANY_ENGINE),
        cycles=free_of_charge,
        page="nki.isa.register_move",
        has_name=False,
    ),
    Declaration(
        name="register_load",
        parameters=(option("dst", Kind.REGISTER), source("src", *REACH)),
        engines=any_of(*ANY_ENGINE),
        rules=(_register_tensor,),
        cycles=free_of_charge,
        page="nki.isa.register_load",
        has_name=False,
    ),
    Declaration(
        name="register_store",
        parameters=(output("dst", *REACH), option("src", Kind.REGISTER)),
        engines=any_of(*ANY_ENGINE),
        rules=(_register_tensor,),
        cycles=free_of_charge,
        page="nki.isa.register_store",
        has_name=False,
    ),
    Declaration(
        name="core_barrier",
        parameters=(
            source("data", Memory.SHARED_HBM),
            option("cores", Kind.INTS),
            engine_option(Engine.GPSIMD),
        ),
        engines=any_of(*ANY_ENGINE),
        rules=(_two_cores,),
        cycles=free_of_charge,
        page="nki.isa.core_barrier",
        first_generation=GEN3,
    ),
    Declaration(
        name="sendrecv",
        parameters=(
            source("src", Memory.SBUF),
            output("dst", Memory.SBUF),
            option("send_to_rank", Kind.INT),
            option("recv_from_rank", Kind.INT),
            option("pipe_id", Kind.INT),
            option("dma_engine", Kind.ENUM, DmaEngine.DMA, choices=DmaEngine),
        ),
        engines=any_of(Engine.DMA),
        rules=(
            same_partitions("dst", "src"),
            same_free("dst", "src"),
            same_dtype("dst", "src"),
            _ranks,
            _gpsimd_size,
        ),
        cycles=None,
        page="nki.isa.sendrecv",
        first_generation=GEN3,
    ),
    Declaration(
        name="device_print",
        parameters=(option("print_prefix", Kind.TEXT), source("tensor", *REACH)),
        engines=any_of(Engine.SYNC),
        cycles=free_of_charge,
        page="nki.language.device_print",
        has_name=False,
    ),
)
"""Registers, barriers, exchanges between cores, and printing."""
