"""How long an instruction holds its engine, and when its result can be read.

Law: an engine starts the next instruction `interval_ns` after this one; whoever needs the result
waits `latency_ns`. The difference is the engine's fixed overhead, which independent instructions
hide.
Sources: the cost formulas of `isa`, the overheads of the chip's file. Where a call leaves the
engine open, the first that its declaration lists runs it; AWS's compiler balances, which we don't
guess.
"""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.declaration import Call
from nki_agent.isa.enums import Engine, Memory
from nki_agent.isa.rules import engine_for
from nki_agent.isa.signature import Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTime:
    """What one instruction costs its engine."""

    engine: Engine
    interval_ns: float
    latency_ns: float
    data_ns: float
    """The data path alone."""


def time_call(call: Call) -> EngineTime:
    """Time one call that is no DMA."""
    cycles_of = call.declaration.cycles
    if cycles_of is None:
        raise ValueError(f"`{call.declaration.name}` runs on the DMA engines")
    engine, chip = engine_for(call), call.chip
    cycles = cycles_of(call, engine)
    if cycles > chip.min_instruction_cycles and _has_wide_stride(call):
        # Beyond 16 bytes a memory port supplies half the elements a cycle (architecture guide).
        cycles *= 2
    clock = clock_ghz(engine, chip)
    interval, overhead = _interval_cycles(engine, cycles, chip), overhead_cycles(engine, chip)
    return EngineTime(
        engine=engine,
        interval_ns=interval / clock,
        latency_ns=max(interval, cycles + overhead) / clock,
        data_ns=cycles / clock,
    )


def _has_wide_stride(call: Call) -> bool:
    return any(
        _innermost_stride(operand) > call.chip.full_rate_stride_bytes
        for operand in call.signature.operands
        if operand.memory is not None and operand.memory.is_on_chip
    )


def _innermost_stride(operand: Operand) -> int:
    for stride, count in reversed(operand.pattern.free):
        if count > 1:
            return abs(stride)
    return 0


def _interval_cycles(engine: Engine, cycles: float, chip: ChipSpec) -> float:
    match engine:
        case Engine.TENSOR | Engine.SYNC | Engine.DMA:
            return max(cycles, chip.min_instruction_cycles)
        case Engine.VECTOR | Engine.SCALAR:
            return max(cycles, chip.small_instruction_cycles)
        case Engine.GPSIMD:
            # Its instructions are programs: the start is not hidden behind the one before.
            return cycles + chip.gpsimd_overhead_cycles


def overhead_cycles(engine: Engine, chip: ChipSpec) -> float:
    """Fixed cycles that a dependent instruction waits on top of the data path."""
    match engine:
        case Engine.TENSOR:
            return chip.tensor_overhead_cycles
        case Engine.VECTOR:
            return chip.vector_overhead_cycles
        case Engine.SCALAR:
            return chip.scalar_overhead_cycles
        case Engine.GPSIMD:
            return chip.gpsimd_overhead_cycles
        case Engine.SYNC | Engine.DMA:
            return 0


def clock_ghz(engine: Engine, chip: ChipSpec) -> float:
    """The clock of an engine's cycles; that of sync for DMA, which it issues."""
    match engine:
        case Engine.TENSOR:
            return chip.tensor_clock_ghz
        case Engine.VECTOR:
            return chip.vector_clock_ghz
        case Engine.SCALAR:
            return chip.scalar_clock_ghz
        case Engine.GPSIMD:
            return chip.gpsimd_clock_ghz
        case Engine.SYNC | Engine.DMA:
            return chip.sync_clock_ghz


def shared_ports(engine: Engine, call: Call) -> tuple[Memory, ...]:
    """Memories whose port the instruction holds alone, of those that two engines share."""
    chip, ports = call.chip, list[Memory]()
    touched = {o.memory for o in call.signature.operands}
    if chip.vector_gpsimd_share_sbuf and engine in (Engine.VECTOR, Engine.GPSIMD):
        ports.append(Memory.SBUF)
    if chip.vector_scalar_share_psum and engine in (Engine.VECTOR, Engine.SCALAR):
        ports.append(Memory.PSUM)
    return tuple(p for p in ports if p in touched)
