"""Declarations of the instructions that move data without arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.declaration import (
    OFFSET_SUFFIX,
    Call,
    Declaration,
    Kind,
    Parameter,
    any_of,
    engine_option,
    option,
    output,
    scalar,
    source,
    update,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ANY_HBM, ON_CHIP, DgeMode, Engine, Memory, OobMode
from nki_agent.isa.passes import per_element, streaming
from nki_agent.isa.rules import (
    not_both_psum,
    not_on_generation,
    reduction_op,
    same_dtype,
    same_elements,
    same_free,
    same_partitions,
)
from nki_agent.isa.signature import Operand

DMA_REACH = (Memory.SBUF, *ANY_HBM)
PREDICATES = (DType.UINT8, DType.UINT16, DType.UINT32)
TRANSPOSE_BYTES = 2
TRANSPOSE_AXES: dict[int, tuple[int, ...]] = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
GEN3 = 3
SOURCES_MAX = 16
PRIORITY_MAX = 3
BLOCK = 16
"""Rows that one hardware or gathering transpose takes."""
BLOCK_PARTS = (1, 2, 4, 8, 16)
TRANSPOSE_COLUMNS_MAX = 128
INDEX_ROWS_MAX = 128
MATRIX_DIMS = 2


def _copy_engines(call: Call) -> tuple[Engine, ...]:
    touches_psum = any(o.memory is Memory.PSUM for o in call.signature.operands)
    engines = [Engine.VECTOR]
    if call.chip.generation >= GEN3:
        engines.append(Engine.SCALAR)
    if not touches_psum:
        engines.append(Engine.GPSIMD)
    return tuple(engines)


def _fill_engines(call: Call) -> tuple[Engine, ...]:
    on_psum = call.get("dst").memory is Memory.PSUM
    return (Engine.VECTOR,) if on_psum else (Engine.VECTOR, Engine.GPSIMD)


def _dma_engines(call: Call) -> tuple[Engine, ...]:
    by_hardware = call.attribute("dge_mode") == DgeMode.HWDGE
    return (Engine.DMA, Engine.SYNC, Engine.SCALAR) if by_hardware else (Engine.DMA,)


def _finding(call: Call, what: str, got: object, limit: object, hint: str) -> Diagnostic:
    what = f"{what} of `{call.declaration.name}`"
    return Diagnostic(code="NK308", what=what, got=str(got), limit=str(limit), hint=hint)


def _priority(call: Call) -> Iterator[Diagnostic]:
    value = call.attribute("priority")
    if value is not None and value not in range(PRIORITY_MAX + 1):
        yield _finding(call, "`priority`", value, f"0 to {PRIORITY_MAX}", "0 is the most urgent")


def _offsets(call: Call) -> list[Operand]:
    return [o for o in call.signature.operands if o.role.endswith(OFFSET_SUFFIX)]


def _gathers(call: Call) -> bool:
    """Whether an operand's rows are named by a tile of indices."""
    return any(o.pattern.partitions > 1 for o in _offsets(call))


def _copy_mode(call: Call) -> Iterator[Diagnostic]:
    mode = call.attribute("dge_mode")
    hint = "leave `dge_mode` out"
    if mode == DgeMode.NONE and _offsets(call):
        yield _finding(call, "`dge_mode` with a run-time offset", mode, "swdge or hwdge", hint)
    if mode == DgeMode.HWDGE and _gathers(call):
        yield _finding(call, "`dge_mode` with a tile of indices", mode, "swdge", hint)


def _transpose_mode(call: Call) -> Iterator[Diagnostic]:
    mode, gathers = call.attribute("dge_mode"), _gathers(call)
    allowed = DgeMode.SWDGE if gathers else DgeMode.HWDGE
    if mode not in (DgeMode.UNKNOWN, allowed):
        limit = f"unknown or {allowed}"
        yield _finding(call, "`dge_mode`", mode, limit, "leave `dge_mode` out")
    elif gathers:
        yield from _gathering_transpose(call)
    elif mode == DgeMode.HWDGE:
        yield from _hardware_transpose(call)


def _hardware_transpose(call: Call) -> Iterator[Diagnostic]:
    """2-D sources: the isa page says 16 rows, the notes of 0.6.0 a part of 16; parts are taken."""
    shape = call.get("src").shape
    rows = shape[0] * shape[-2] if len(shape) > MATRIX_DIMS else BLOCK
    fits = shape[0] in BLOCK_PARTS and rows % BLOCK == 0 and shape[-1] <= TRANSPOSE_COLUMNS_MAX
    if not fits:
        limit = "first size 1, 2, 4, 8 or 16, times the last but one a multiple of 16; last at most"
        yield _finding(
            call,
            "shape of `src` with dge_mode=hwdge",
            list(shape),
            f"{limit} {TRANSPOSE_COLUMNS_MAX}",
            "leave `dge_mode` out",
        )


def _gathering_transpose(call: Call) -> Iterator[Diagnostic]:
    if call.chip.generation < GEN3:
        yield not_on_generation("`dma_transpose` of rows named by indices", GEN3, call)
    shape, index = call.get("src").shape, _offsets(call)[0]
    if shape[0] % BLOCK or shape[-1] > TRANSPOSE_COLUMNS_MAX:
        limit = f"a multiple of {BLOCK} rows, at most {TRANSPOSE_COLUMNS_MAX} columns"
        hint = "gather with `nisa.dma_copy`, then transpose"
        yield _finding(call, "shape of `src` with indices", list(shape), limit, hint)
    if len(shape) == max(TRANSPOSE_AXES) and 1 not in shape[1:3]:
        limit = "a middle dimension of size 1"
        hint = "gather with `nisa.dma_copy`, then transpose"
        yield _finding(call, "shape of `src` with indices", list(shape), limit, hint)
    if index.dtype is not DType.UINT32:
        yield Diagnostic(
            code="NK302",
            what="dtype of the indices of `dma_transpose`",
            got=index.dtype.value,
            limit="uint32",
            hint="copy the indices into a uint32 tile with `nisa.tensor_copy`",
        )
    if index.pattern.partitions % BLOCK or index.pattern.partitions > INDEX_ROWS_MAX:
        limit = f"a multiple of {BLOCK} up to {INDEX_ROWS_MAX}"
        found = index.pattern.partitions
        yield _finding(call, "number of indices", found, limit, "pad the indices")


def _dge(call: Call) -> Iterator[Diagnostic]:
    if call.attribute("dge_mode") != DgeMode.HWDGE:
        return
    if call.chip.generation < GEN3:
        yield not_on_generation("`dge_mode=hwdge`", GEN3, call)
    if call.get("dst").dtype is not call.get("src").dtype:
        yield Diagnostic(
            code="NK302",
            what=f"dtype of `src` of `{call.declaration.name}` with dge_mode=hwdge",
            got=call.get("src").dtype.value,
            limit=f"{call.get('dst').dtype.value}, as `dst`",
            hint="the hardware descriptor engine does not cast; leave `dge_mode` out",
        )


def _fill_value(call: Call) -> Iterator[Diagnostic]:
    dst, value = call.get("dst"), call.get("value")
    if dst.dtype.is_integer and value.dtype.is_float:
        yield Diagnostic(
            code="NK302",
            what="type of `value` of `memset`",
            got="float",
            limit=f"an int, as `dst` is {dst.dtype.value}",
            hint="pass `value=int(...)`, or allocate `dst` with a float dtype",
        )


def _transpose_dtype(call: Call) -> Iterator[Diagnostic]:
    src = call.get("src")
    if src.dtype.itemsize != TRANSPOSE_BYTES:
        yield Diagnostic(
            code="NK302",
            what="dtype of `src` of `dma_transpose`",
            got=src.dtype.value,
            limit="a 2-byte dtype (bf16, float16, int16)",
            hint="use `nisa.nc_transpose(dst=psum_tile, data=sbuf_tile)` and `nisa.tensor_copy`"
            " out of PSUM, or cast to bf16 first",
        )


def _transpose_shape(call: Call) -> Iterator[Diagnostic]:
    src, dst = call.get("src").shape, call.get("dst").shape
    allowed = TRANSPOSE_AXES.get(len(src))
    axes = call.attribute("axes") or allowed
    if allowed is None or axes != allowed:
        yield Diagnostic(
            code="NK308",
            what="`axes` of `dma_transpose`",
            got=f"{axes} on {len(src)} dimensions",
            limit=" or ".join(map(str, TRANSPOSE_AXES.values())),
            hint="leave `axes` out: it follows from the rank",
        )
        return
    assert isinstance(axes, tuple)
    wanted = tuple(src[a] for a in axes if isinstance(a, int))
    if dst != wanted:
        yield Diagnostic(
            code="NK304",
            what="shape of `dst` of `dma_transpose`",
            got=str(list(dst)),
            limit=str(list(wanted)),
            hint="`dst` has the axes of `src` in reverse order",
        )


def _sources(call: Call) -> Iterator[Diagnostic]:
    dst = call.get("dst")
    operands = call.signature.operands[1:]
    sources = [o for o in operands if not o.role.endswith(OFFSET_SUFFIX)]
    if not 1 <= len(sources) <= SOURCES_MAX:
        yield Diagnostic(
            code="NK308",
            what="number of `srcs` of `dma_compute`",
            got=str(len(sources)),
            limit=f"1 to {SOURCES_MAX}",
            hint="add in several steps",
        )
    wanted = dst.pattern.partitions * dst.pattern.free_elems
    for operand in sources:
        found = operand.pattern.partitions * operand.pattern.free_elems
        if found != wanted:
            yield Diagnostic(
                code="NK310",
                what=f"elements of `{operand.role}` of `dma_compute`",
                got=str(found),
                limit=f"{wanted}, as `dst`",
                hint="slice every source to the shape of `dst`",
            )
    scales = call.attribute("scales")
    if isinstance(scales, tuple) and (len(scales) != len(sources) or set(scales) - {1}):
        yield Diagnostic(
            code="NK308",
            what="`scales` of `dma_compute`",
            got=str(scales),
            limit="None, or 1.0 for each source",
            hint="leave `scales` out",
        )
    if not call.attribute("unique_indices"):
        yield Diagnostic(
            code="NK308",
            what="`unique_indices` of `dma_compute`",
            got="False",
            limit="True",
            hint="indices that repeat are not supported by the hardware",
        )


MOVEMENT = (
    Declaration(
        name="dma_copy",
        parameters=(
            output("dst", *DMA_REACH),
            source("src", *DMA_REACH),
            option("priority", Kind.INT, None, first_generation=4),
            option("oob_mode", Kind.ENUM, OobMode.ERROR, choices=OobMode),
            option("dge_mode", Kind.ENUM, DgeMode.UNKNOWN, choices=DgeMode),
            engine_option(),
        ),
        engines=_dma_engines,
        rules=(same_elements("dst", "src"), _priority, _copy_mode, _dge),
        cycles=None,
        page="nki.isa.dma_copy",
    ),
    Declaration(
        name="dma_transpose",
        parameters=(
            output("dst", Memory.SBUF),
            source("src", *DMA_REACH),
            option("axes", Kind.AXES, None),
            option("priority", Kind.INT, None, first_generation=4),
            option("dge_mode", Kind.ENUM, DgeMode.UNKNOWN, choices=DgeMode),
            option("oob_mode", Kind.ENUM, OobMode.ERROR, choices=OobMode),
        ),
        engines=any_of(Engine.DMA),
        rules=(
            _transpose_dtype,
            same_dtype("dst", "src"),
            _transpose_shape,
            _priority,
            _transpose_mode,
            _dge,
        ),
        cycles=None,
        page="nki.isa.dma_transpose",
    ),
    Declaration(
        name="dma_compute",
        parameters=(
            output("dst", *DMA_REACH),
            Parameter(name="srcs", kind=Kind.INPUTS, memories=DMA_REACH),
            option("reduce_op", Kind.ALU_OP),
            option("scales", Kind.INTS, None),
            option("unique_indices", Kind.FLAG, default=True),
            option("oob_mode", Kind.ENUM, OobMode.ERROR, choices=OobMode),
        ),
        engines=any_of(Engine.DMA),
        rules=(reduction_op("reduce_op", "add"), _sources),
        cycles=None,
        page="nki.isa.dma_compute",
    ),
    Declaration(
        name="tensor_copy",
        parameters=(output("dst", *ON_CHIP), source("src", *ON_CHIP), engine_option()),
        engines=_copy_engines,
        rules=(same_partitions("dst", "src"), same_free("dst", "src")),
        cycles=streaming("src"),
        page="nki.isa.tensor_copy",
    ),
    Declaration(
        name="memset",
        parameters=(output("dst", *ON_CHIP), option("value", Kind.VALUE), engine_option()),
        engines=_fill_engines,
        rules=(_fill_value,),
        cycles=streaming("dst"),
        page="nki.isa.memset",
    ),
    Declaration(
        name="tensor_copy_predicated",
        parameters=(
            update("dst", *ON_CHIP),
            scalar("src", *ON_CHIP),
            source("predicate", *ON_CHIP, dtypes=PREDICATES),
            option("reverse_pred", Kind.FLAG, default=False),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "src", "predicate"),
            same_free("dst", "src", "predicate"),
            same_dtype("dst", "src"),
            not_both_psum("src", "predicate"),
        ),
        cycles=per_element("dst", 2.0),
        page="nki.isa.tensor_copy_predicated",
    ),
)
"""DMA, copies and fills."""
