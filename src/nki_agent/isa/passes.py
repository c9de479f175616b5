"""Cost formulas: cycles that an instruction keeps its engine busy, fixed start-up left out.

Source: "Estimated instruction cost" of the NKI 2.26 isa reference for the base formulas; the
Trainium2 and Trainium3 architecture guides for the performance modes of newer chips. N is the
number of elements in one partition of the input.
"""

from __future__ import annotations

from collections.abc import Callable

from nki_agent.isa.declaration import Call, Cycles
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, Memory, PerfMode
from nki_agent.isa.signature import Operand

SHORT = 2
"""Bytes of the formats that the faster modes take."""


def _is_short(operand: Operand) -> bool:
    return operand.dtype in (DType.BFLOAT16, DType.FLOAT16)


def _is_contiguous(operand: Operand) -> bool:
    free = operand.pattern.free
    return not free or free[-1][0] == operand.dtype.itemsize or free[-1][1] == 1


def _tiles(call: Call) -> list[Operand]:
    return [o for o in call.signature.operands if not o.is_immediate and o.pattern.free_elems > 1]


def per_element(role: str, factor: float = 1.0, extra: float = 0.0) -> Cycles:
    """max(64, factor * N) + extra."""

    def cycles(call: Call, _engine: Engine) -> float:
        elems = call.get(role).pattern.free_elems
        return max(call.chip.min_instruction_cycles, factor * elems) + extra

    return cycles


def streaming(role: str, extra: float = 0.0) -> Cycles:
    """One pass over `role`; 2 or 4 times faster in 16-bit on v3 and later."""

    def cycles(call: Call, engine: Engine) -> float:
        elems = call.get(role).pattern.free_elems
        return max(call.chip.min_instruction_cycles, elems / _speed(call, engine)) + extra

    return cycles


def _speed(call: Call, engine: Engine) -> float:
    tiles = _tiles(call)
    if not all(_is_short(o) for o in tiles):
        return 1.0
    if engine is Engine.SCALAR:
        return float(call.chip.scalar_fast_factor)
    if engine is not Engine.VECTOR:
        return 1.0
    in_sbuf = all(o.memory is Memory.SBUF for o in tiles)
    contiguous = all(_is_contiguous(o) for o in tiles)
    if in_sbuf and contiguous:
        return float(call.chip.vector_fast_factor)
    return float(call.chip.vector_half_fast_factor) if in_sbuf or contiguous else 1.0


def two_inputs(first: str, second: str) -> Cycles:
    """Two SBUF streams share the port: 2N; N if one is in PSUM or all is 16-bit."""

    def cycles(call: Call, engine: Engine) -> float:
        operands = [o for role in (first, second) if (o := call.find(role)) is not None]
        elems = max(o.pattern.free_elems for o in operands)
        both_sbuf = len(operands) > 1 and all(o.memory is Memory.SBUF for o in operands)
        short = all(_is_short(o) and _is_contiguous(o) for o in _tiles(call))
        factor = 2.0 if both_sbuf else 1.0
        if both_sbuf and short:
            factor = 1.0 / (call.chip.vector_half_fast_factor if engine is Engine.VECTOR else 1)
        return max(call.chip.min_instruction_cycles, factor * elems)

    return cycles


def free_of_charge(call: Call, _engine: Engine) -> float:
    """The shortest instruction: a sequencer's work, no data path."""
    return float(call.chip.min_instruction_cycles)


def matmul() -> Cycles:
    """max(min(64, M), N) for 16-bit and narrower, four passes for fp32.

    In double_row mode a pass takes the columns of both row sets at once: N is that of one.
    """

    def cycles(call: Call, _engine: Engine) -> float:
        moving, stationary = call.get("moving"), call.get("stationary")
        sets = 1
        if call.attribute("perf_mode") == PerfMode.DOUBLE_ROW:
            sets = call.chip.matmul_fp8_rows
        columns, rows = (o.pattern.free_elems // sets for o in (moving, stationary))
        base = max(min(call.chip.min_instruction_cycles, rows), columns)
        return base * _matmul_passes(call, moving)

    return cycles


def _matmul_passes(call: Call, moving: Operand) -> float:
    if moving.dtype is not DType.FLOAT32:
        return 1.0
    passes = float(call.chip.matmul_fp32_passes)
    onezero = call.attribute("is_moving_onezero") or call.attribute("is_stationary_onezero")
    transpose = call.attribute("is_transpose") and call.chip.generation > SHORT
    return passes / 2 if onezero or transpose else passes


def transpose(tensor: Callable[[Operand], float]) -> Cycles:
    """Vector: max(64, N). Tensor: a matmul by identity over `tensor(data)` columns."""

    def cycles(call: Call, engine: Engine) -> float:
        data = call.get("data")
        if engine is Engine.TENSOR:
            passes = 1.0
            if data.dtype.itemsize > SHORT:
                passes = call.chip.matmul_fp32_passes / (2 if call.chip.generation > SHORT else 1)
            return tensor(data) * passes
        return max(call.chip.min_instruction_cycles, data.pattern.free_elems)

    return cycles
