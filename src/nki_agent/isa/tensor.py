"""Declarations of the Tensor Engine's instructions."""

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
    update,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ON_CHIP, Engine, Memory, PerfMode
from nki_agent.isa.passes import matmul, transpose
from nki_agent.isa.rules import free_at_most, not_on_generation, same_dtype, tiling
from nki_agent.isa.signature import Operand

FULL_PRECISION = (DType.FLOAT32, DType.TFLOAT32)
MATMUL_DTYPES = (
    *FULL_PRECISION,
    DType.BFLOAT16,
    DType.FLOAT16,
    DType.FLOAT8_E4M3,
    DType.FLOAT8_E5M2,
    DType.FLOAT8_E4M3FN,
)
FP8 = (DType.FLOAT8_E4M3, DType.FLOAT8_E5M2, DType.FLOAT8_E4M3FN)
GEN3, GEN4 = 3, 4
SHORT = 2
ROW_PAIR = 2


def _moving_max(call: Call) -> int:
    short = call.get("dst").dtype.itemsize <= SHORT
    chip = call.chip
    most = chip.matmul_moving_free_max_16bit if short else chip.matmul_moving_free_max
    return most * _rows_of(call)


def _rows_of(call: Call) -> int:
    """Sets of rows that one partition holds: 2 in double_row mode."""
    return 2 if call.attribute("perf_mode") == PerfMode.DOUBLE_ROW else 1


def _contraction(call: Call) -> Iterator[Diagnostic]:
    rows = [call.get(role).pattern.partitions for role in ("stationary", "moving")]
    if rows[0] != rows[1]:
        yield Diagnostic(
            code="NK303",
            what="contraction (partition) sizes of `nc_matmul` differ:"
            f" stationary[0]={rows[0]}, moving[0]={rows[1]}",
            hint="both carry K on the partition axis: stationary is [K, M], moving is [K, N]",
        )


def _double_row(call: Call) -> Iterator[Diagnostic]:
    if call.attribute("perf_mode") != PerfMode.DOUBLE_ROW:
        return
    if call.chip.generation < GEN3:
        yield not_on_generation("`perf_mode=double_row`", GEN3, call)
    size = call.attribute("tile_size")
    if isinstance(size, tuple) and size and size[-1] != call.chip.matmul_stationary_free_max:
        yield Diagnostic(
            code="NK308",
            what="`tile_size` of `nc_matmul` with perf_mode=double_row",
            got=str(size),
            limit=f"(rows, {call.chip.matmul_stationary_free_max})",
            hint="double_row cannot be combined with column tiles",
        )
    for role in ("stationary", "moving"):
        operand = call.get(role)
        if (
            operand.dtype not in FP8
            or len(operand.shape) < ROW_PAIR + 1
            or operand.shape[1] != ROW_PAIR
        ):
            yield Diagnostic(
                code="NK304",
                what=f"`{role}` of `nc_matmul` with perf_mode=double_row",
                got=f"{list(operand.shape)} {operand.dtype.value}",
                limit="shape [K, 2, ...] of an fp8 dtype",
                hint="the first free axis holds the two halves of the contraction",
            )


def _result_shape(call: Call) -> Iterator[Diagnostic]:
    dst = call.get("dst").pattern
    sets = _rows_of(call)
    wanted = [call.get(role).pattern.free_elems // sets for role in ("stationary", "moving")]
    found = [dst.partitions, dst.free_elems]
    if found != wanted:
        swap = "swap `stationary` and `moving`: " if found == wanted[::-1] else ""
        yield Diagnostic(
            code="NK304",
            what="shape of `dst` of `nc_matmul`",
            got=str(found),
            limit=f"{wanted}, that is [M, N]",
            hint=f"{swap}dst = stationary.T @ moving, M is the free size of stationary, N that of"
            " moving",
        )


def _dtype_pair(call: Call) -> Iterator[Diagnostic]:
    first, second = call.get("stationary").dtype, call.get("moving").dtype
    if (first in FULL_PRECISION) != (second in FULL_PRECISION):
        yield Diagnostic(
            code="NK302",
            what=f"dtypes of `nc_matmul` ({first.value} and {second.value})",
            got="mixed",
            limit="both float32 (or tfloat32), or both narrower",
            hint="cast one side with `nisa.tensor_copy` so that the dtypes match",
        )
    if {first, second} == {DType.FLOAT8_E4M3, DType.FLOAT8_E4M3FN}:
        yield Diagnostic(
            code="NK302",
            what="dtypes of `nc_matmul`",
            got="float8_e4m3 with float8_e4m3fn",
            limit="one of the two formats",
            hint="use the same fp8 format on both sides",
        )
    if DType.FLOAT8_E4M3FN in (first, second) and call.chip.generation < GEN4:
        yield not_on_generation("float8_e4m3fn in `nc_matmul`", GEN4, call)


def _result_dtype(call: Call) -> Iterator[Diagnostic]:
    dst = call.get("dst").dtype
    if call.attribute("is_transpose"):
        wanted = call.get("moving").dtype
        good = dst is wanted
        limit = f"{wanted.value}, as the operand that is transposed"
    else:
        good = dst is DType.FLOAT32 or (dst is DType.BFLOAT16 and call.chip.generation >= GEN4)
        limit = "float32" if call.chip.generation < GEN4 else "float32 or bfloat16"
    if not good:
        yield Diagnostic(
            code="NK302",
            what="dtype of `dst` of `nc_matmul`",
            got=dst.value,
            limit=limit,
            hint="accumulate in a float32 PSUM tile and cast when copying it to SBUF",
        )


def _transpose_shape(call: Call) -> Iterator[Diagnostic]:
    data, dst = call.get("data").pattern, call.get("dst").pattern
    wanted = [data.free_elems, data.partitions]
    if max(wanted) > call.chip.tensor_transpose_max:
        return  # `_transpose_fits` says so: no `dst` can have that shape
    if [dst.partitions, dst.free_elems] != wanted:
        yield Diagnostic(
            code="NK304",
            what="shape of `dst` of `nc_transpose`",
            got=str([dst.partitions, dst.free_elems]),
            limit=str(wanted),
            hint="`dst` swaps the partition and the free axis of `data`",
        )


def _transpose_engines(call: Call) -> tuple[Engine, ...]:
    data, dst = call.get("data"), call.get("dst")
    size = max(data.pattern.partitions, data.pattern.free_elems)
    engines = []
    on_tensor = data.memory is Memory.SBUF and dst.memory is Memory.PSUM
    if on_tensor and size <= call.chip.tensor_transpose_max:
        engines.append(Engine.TENSOR)
    if size <= call.chip.vector_transpose_max:
        engines.append(Engine.VECTOR)
    return tuple(engines)


def _transpose_fits(call: Call) -> Iterator[Diagnostic]:
    if _transpose_engines(call):
        return
    data, dst = call.get("data"), call.get("dst")
    shape = [data.pattern.partitions, data.pattern.free_elems]
    if max(shape) > call.chip.tensor_transpose_max:
        limit = call.chip.tensor_transpose_max
        yield Diagnostic(
            code="NK305",
            what="tile of `nc_transpose`",
            got=str(shape),
            limit=f"[{limit}, {limit}]",
            hint="transpose block by block",
        )
    else:
        yield Diagnostic(
            code="NK301",
            what=f"memories of `nc_transpose` of a {shape} tile ({data.memory} to {dst.memory})",
            got="no engine",
            limit="SBUF to PSUM on the Tensor Engine, or at most [32, 32] on the Vector Engine",
            hint="allocate `dst` with `buffer=nl.psum`",
        )


def _transpose_columns(data: Operand) -> float:
    return max(float(data.pattern.partitions), min(64.0, data.pattern.free_elems))


TENSOR = (
    Declaration(
        name="nc_matmul",
        parameters=(
            update("dst", Memory.PSUM),
            source("stationary", Memory.SBUF, dtypes=MATMUL_DTYPES),
            source("moving", Memory.SBUF, dtypes=MATMUL_DTYPES),
            option("is_stationary_onezero", Kind.FLAG, default=False),
            option("is_moving_onezero", Kind.FLAG, default=False),
            option("is_transpose", Kind.FLAG, default=False),
            option("accumulate", Kind.FLAG, default=None),
            option("tile_position", Kind.INTS, ()),
            option("tile_size", Kind.INTS, ()),
            option("perf_mode", Kind.ENUM, PerfMode.NONE, choices=PerfMode),
        ),
        engines=any_of(Engine.TENSOR),
        rules=(
            _contraction,
            _double_row,
            free_at_most(
                "stationary",
                lambda c: c.chip.matmul_stationary_free_max * _rows_of(c),
                fix="split M: loop over column blocks of stationary",
            ),
            free_at_most("moving", _moving_max, fix="split N: loop over column blocks of moving"),
            _result_shape,
            _dtype_pair,
            _result_dtype,
            tiling,
        ),
        cycles=matmul(),
        page="nki.isa.nc_matmul",
    ),
    Declaration(
        name="nc_transpose",
        parameters=(output("dst", *ON_CHIP), source("data", *ON_CHIP), engine_option()),
        engines=_transpose_engines,
        rules=(same_dtype("dst", "data"), _transpose_shape, _transpose_fits),
        cycles=transpose(_transpose_columns),
        page="nki.isa.nc_transpose",
    ),
)
"""Instructions whose home is the Tensor Engine."""
