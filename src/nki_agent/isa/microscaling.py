"""Declarations of the MX instructions of NeuronCore-v4: quantisation, and matmul on packed data.

Layout (nki.isa.quantize_mx, MX deep dive): a group is 8 partitions by 4 elements; its scale lies in
the first 4 partitions of each quadrant of 32.
"""

from __future__ import annotations

from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.declaration import (
    Call,
    Declaration,
    Kind,
    any_of,
    option,
    output,
    source,
    update,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, Memory
from nki_agent.isa.passes import per_element
from nki_agent.isa.rules import tiling
from nki_agent.isa.signature import Operand

GEN4 = 4
QUADRANT = 32
PACK = 4
GROUP_PARTITIONS = 8
SCALE_PARTITIONS = QUADRANT // GROUP_PARTITIONS
SCALE_OFFSETS = (0, 4, 8, 12)
"""Where in a quadrant scales may begin, so that several tensors' scales share one tile."""
SHORT = (DType.FLOAT16, DType.BFLOAT16)
PACKED = (DType.FLOAT8_E5M2_X4, DType.FLOAT8_E4M3FN_X4, DType.FLOAT4_E2M1FN_X4)
QUANTISED = (DType.FLOAT8_E5M2_X4, DType.FLOAT8_E4M3FN_X4)
_SCALE = {"dtypes": (DType.FLOAT8_E8M0FNU, DType.UINT8), "start_offsets": SCALE_OFFSETS}


def _quadrants(role: str, operand: Operand, name: str) -> Iterator[Diagnostic]:
    if operand.pattern.partitions % QUADRANT:
        yield Diagnostic(
            code="NK303",
            what=f"partitions of `{role}` of `{name}`",
            got=str(operand.pattern.partitions),
            limit="a multiple of 32",
            hint="MX groups lie in quadrants of 32 partitions",
        )


def _quantise_shapes(call: Call) -> Iterator[Diagnostic]:
    src, dst, scale = (call.get(r).pattern for r in ("src", "dst", "dst_scale"))
    yield from _quadrants("src", call.get("src"), "quantize_mx")
    if src.free_elems % PACK or dst.free_elems * PACK != src.free_elems:
        yield Diagnostic(
            code="NK304",
            what=f"free sizes of `quantize_mx`: src {src.free_elems}",
            got=f"dst {dst.free_elems}",
            limit="a multiple of 4, and a quarter of it",
            hint="four values pack into one element of `dst`",
        )
    elif dst.partitions != src.partitions or scale.free_elems != dst.free_elems:
        yield Diagnostic(
            code="NK304",
            what="shapes of `dst` and `dst_scale` of `quantize_mx`",
            got=f"{list(dst.shape)} and {list(scale.shape)}",
            limit=f"[{src.partitions}, {src.free_elems // PACK}] for both",
            hint="scales lie in 4 of each 32 partitions",
        )
    yield from _scale_rows(call, "src", "dst_scale")


def _scale_rows(call: Call, data_role: str, scale_role: str) -> Iterator[Diagnostic]:
    """The scales' view has the rows that the data needs, in the quadrants of the data."""
    data, scale = call.get(data_role).pattern, call.get(scale_role).pattern
    needed = data.partitions - QUADRANT + SCALE_PARTITIONS
    if not needed <= scale.partitions <= data.partitions:
        yield Diagnostic(
            code="NK304",
            what=f"partitions of `{scale_role}` of `{call.declaration.name}`",
            got=str(scale.partitions),
            limit=f"{needed} to {data.partitions}",
            hint="4 rows of scales lie in each quadrant of 32 partitions",
        )
    starts = [p.partition[0] // QUADRANT for p in (data, scale) if p.partition is not None]
    if len(set(starts)) > 1:
        yield Diagnostic(
            code="NK211",
            what=f"quadrant of `{scale_role}` of `{call.declaration.name}`",
            got=str(starts[1]),
            limit=f"{starts[0]}, as `{data_role}`",
            hint="scales lie in the quadrant of 32 partitions that their data lies in",
        )


def _matmul_shapes(call: Call) -> Iterator[Diagnostic]:
    stationary, moving, dst = (call.get(r).pattern for r in ("stationary", "moving", "dst"))
    yield from _quadrants("stationary", call.get("stationary"), "nc_matmul_mx")
    if stationary.partitions != moving.partitions:
        yield Diagnostic(
            code="NK303",
            what="contraction (partition) sizes of `nc_matmul_mx` differ:"
            f" stationary[0]={stationary.partitions}, moving[0]={moving.partitions}",
            hint="both operands carry K / 4 on the partition axis",
        )
    limit = call.chip.matmul_stationary_free_max
    if stationary.free_elems > limit or stationary.free_elems % 2:
        yield Diagnostic(
            code="NK305",
            what="free size of `stationary` of `nc_matmul_mx`",
            got=str(stationary.free_elems),
            limit=f"an even number up to {limit}",
            hint="split or pad M",
        )
    wide = call.get("dst").dtype is DType.BFLOAT16
    most = call.chip.matmul_moving_free_max_16bit if wide else call.chip.matmul_moving_free_max
    if moving.free_elems > most:
        yield Diagnostic(
            code="NK305",
            what="free size of `moving` of `nc_matmul_mx`",
            got=str(moving.free_elems),
            limit=str(most),
            hint="split N",
        )
    if [dst.partitions, dst.free_elems] != [stationary.free_elems, moving.free_elems]:
        yield Diagnostic(
            code="NK304",
            what="shape of `dst` of `nc_matmul_mx`",
            got=str([dst.partitions, dst.free_elems]),
            limit=f"{[stationary.free_elems, moving.free_elems]}, that is [M, N]",
            hint="dst = stationary.T @ moving",
        )


def _scale_shapes(call: Call) -> Iterator[Diagnostic]:
    for role in ("stationary", "moving"):
        data, scale = call.get(role).pattern, call.get(f"{role}_scale").pattern
        if scale.free_elems != data.free_elems:
            yield Diagnostic(
                code="NK304",
                what=f"free size of `{role}_scale` of `nc_matmul_mx`",
                got=str(scale.free_elems),
                limit=f"{data.free_elems}, as `{role}`",
                hint="use the scales that `quantize_mx` wrote",
            )
        yield from _scale_rows(call, role, f"{role}_scale")


def _row_tiles_only(call: Call) -> Iterator[Diagnostic]:
    position, size = call.attribute("tile_position"), call.attribute("tile_size")
    whole = call.chip.matmul_stationary_free_max
    column = position[-1] if isinstance(position, tuple) and position else 0
    columns = size[-1] if isinstance(size, tuple) and size else whole
    if column != 0 or columns != whole:
        yield Diagnostic(
            code="NK308",
            what="`tile_position` and `tile_size` of `nc_matmul_mx`",
            got=f"{position} and {size}",
            limit=f"(row, 0) and (rows, {whole})",
            hint="MX products have row tiles only",
        )


def _cycles(call: Call, _engine: Engine) -> float:
    rows = call.get("stationary").pattern.free_elems
    columns = call.get("moving").pattern.free_elems
    return max(min(call.chip.min_instruction_cycles, rows), columns)


MICROSCALING = (
    Declaration(
        name="quantize_mx",
        parameters=(
            output("dst", Memory.SBUF, dtypes=QUANTISED),
            source("src", Memory.SBUF, dtypes=SHORT),
            update("dst_scale", Memory.SBUF, **_SCALE),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(_quantise_shapes,),
        cycles=per_element("src", 0.25),
        page="nki.isa.quantize_mx",
        first_generation=GEN4,
    ),
    Declaration(
        name="nc_matmul_mx",
        parameters=(
            update("dst", Memory.PSUM, dtypes=(DType.FLOAT32, DType.BFLOAT16)),
            source("stationary", Memory.SBUF, dtypes=PACKED),
            source("moving", Memory.SBUF, dtypes=PACKED),
            source("stationary_scale", Memory.SBUF, **_SCALE),
            source("moving_scale", Memory.SBUF, **_SCALE),
            option("tile_position", Kind.INTS, None),
            option("tile_size", Kind.INTS, None),
            option("accumulate", Kind.FLAG, default=None),
        ),
        engines=any_of(Engine.TENSOR),
        rules=(_matmul_shapes, _scale_shapes, _row_tiles_only, tiling),
        cycles=_cycles,
        page="nki.isa.nc_matmul_mx",
        first_generation=GEN4,
    ),
)
"""Instructions on MX data."""
