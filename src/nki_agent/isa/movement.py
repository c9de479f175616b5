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
HWDGE_ENGINES = (Engine.SYNC, Engine.SCALAR)
HWDGE_ROWS = (1, 2, 4, 8, 16)
MATRIX_DIMS = 2
TRANSPOSE_BYTES = (2, 4)
TRANSPOSE_LAST = 128
TRANSPOSE_ROWS = 16
TRANSPOSE_AXES: dict[int, tuple[int, ...]] = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
GEN3 = 3
SOURCES_MAX = 16


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


def _rows_of_indices(call: Call) -> Operand | None:
    """The tile of indices that a DMA gathers or scatters rows by; None if it does neither."""
    for role in ("src", "dst"):
        found = call.find(f"{role}{OFFSET_SUFFIX}")
        if found is not None and found.pattern.partitions * found.pattern.free_elems > 1:
            return found
    return None


def _dge(call: Call) -> Iterator[Diagnostic]:
    name = call.declaration.name
    is_hardware = call.attribute("dge_mode") == DgeMode.HWDGE
    engine = call.signature.engine
    if engine is not None and not (is_hardware and engine in HWDGE_ENGINES):
        yield Diagnostic(
            code="NK306",
            what=f"`engine` of `{name}`",
            got=engine.value,
            limit="sync or scalar, and with `dge_mode=nisa.dge_mode.hwdge` only",
            hint="leave `engine` out, or ask for the hardware descriptor engine",
        )
    if not is_hardware:
        return
    if call.chip.generation < GEN3:
        yield not_on_generation("`dge_mode=hwdge`", GEN3, call)
    if _rows_of_indices(call) is not None:
        yield _wrong_mode(call, "a gather or scatter by a tile of indices", "unknown or swdge")
    if call.get("dst").dtype is not call.get("src").dtype:
        yield Diagnostic(
            code="NK302",
            what=f"dtype of `src` of `{name}` with dge_mode=hwdge",
            got=call.get("src").dtype.value,
            limit=f"{call.get('dst').dtype.value}, as `dst`",
            hint="the hardware descriptor engine does not cast; leave `dge_mode` out",
        )


def _wrong_mode(call: Call, use: str, limit: str) -> Diagnostic:
    return Diagnostic(
        code="NK308",
        what=f"`dge_mode` of `{call.declaration.name}` for {use}",
        got=str(call.attribute("dge_mode")),
        limit=limit,
        hint="leave `dge_mode` out: the compiler chooses one that works",
    )


def _fill_value(call: Call) -> Iterator[Diagnostic]:
    dst, value = call.get("dst"), call.get("value")
    if dst.dtype.is_integer and value.dtype.is_float:
        yield Diagnostic(
            code="NK302",
            what="type of `value` of `memset`",
            got="float",
            limit=f"an int, as `dst` is {dst.dtype.value}",
            hint="pass an int value, or allocate `dst` with a float dtype",
        )


def _transpose_mode(call: Call) -> Iterator[Diagnostic]:
    """What each way to make the descriptors of a transpose asks of its source."""
    src, mode, indices = call.get("src"), call.attribute("dge_mode"), _rows_of_indices(call)
    is_narrow = mode == DgeMode.HWDGE or indices is not None
    if src.dtype.itemsize not in (TRANSPOSE_BYTES[:1] if is_narrow else TRANSPOSE_BYTES):
        way = " with dge_mode=hwdge" if mode == DgeMode.HWDGE else " by indices" if indices else ""
        yield Diagnostic(
            code="NK302",
            what=f"dtype of `src` of `dma_transpose`{way}",
            got=src.dtype.value,
            limit="a 2-byte dtype (bf16, float16, int16)" + ("" if is_narrow else ", or 4 bytes"),
            hint="use `nisa.nc_transpose`, or cast to bf16 first",
        )
    if indices is not None:
        yield from _gathered_transpose(call, src, indices)
    elif mode == DgeMode.SWDGE:
        yield _wrong_mode(call, "a transpose without indices", "unknown or hwdge")
    elif mode == DgeMode.HWDGE:
        first, fits = src.shape[0], src.shape[0] in HWDGE_ROWS and src.shape[-1] <= TRANSPOSE_LAST
        if not fits or (len(src.shape) > MATRIX_DIMS and first * src.shape[-2] % TRANSPOSE_ROWS):
            yield _transpose_limit(
                "`src` of `dma_transpose` with dge_mode=hwdge",
                str(list(src.shape)),
                "shape[0] of 1, 2, 4, 8 or 16, shape[-1] up to 128, and from 3 dimensions on"
                " shape[0] * shape[-2] a multiple of 16",
            )


def _gathered_transpose(call: Call, src: Operand, indices: Operand) -> Iterator[Diagnostic]:
    if call.chip.generation < GEN3:
        yield not_on_generation("`dma_transpose` by indices", GEN3, call)
    if indices.dtype is not DType.UINT32:
        yield Diagnostic(
            code="NK302",
            what="dtype of the indices of `dma_transpose`",
            got=indices.dtype.value,
            limit="uint32",
            hint="load the indices into a tile of `nl.uint32`",
        )
    rows = indices.shape[0]
    if rows % TRANSPOSE_ROWS or src.shape[0] % TRANSPOSE_ROWS:
        limit = "a multiple of 16 rows"
        yield _transpose_limit("`src` of `dma_transpose` by indices", f"{src.shape[0]}", limit)
    if src.shape[-1] > TRANSPOSE_LAST:
        what = "last dimension of `src` of `dma_transpose` by indices"
        yield _transpose_limit(what, str(src.shape[-1]), "128")
    if len(src.shape) > MATRIX_DIMS + 1 and 1 not in src.shape[1:3]:
        what = "`src` of `dma_transpose` by indices"
        yield _transpose_limit(what, str(list(src.shape)), "shape[1] or shape[2] of 1")


def _transpose_limit(what: str, got: str, limit: str) -> Diagnostic:
    hint = "split it into several, pad it, or transpose on chip with `nisa.nc_transpose`"
    return Diagnostic(code="NK304", what=what, got=got, limit=limit, hint=hint)


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
        engines=any_of(Engine.DMA, Engine.SYNC, Engine.SCALAR, Engine.GPSIMD),
        rules=(same_elements("dst", "src"), _dge),
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
        rules=(_transpose_mode, same_dtype("dst", "src"), _transpose_shape, _dge),
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
        ),
        cycles=per_element("dst", 2.0),
        page="nki.isa.tensor_copy_predicated",
    ),
)
"""DMA, copies and fills."""
