"""Declarations of gathers, shuffles, searches over a row and sorts."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.declaration import (
    Call,
    Declaration,
    Kind,
    Rule,
    any_of,
    option,
    output,
    source,
    update,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ON_CHIP, Engine, Memory
from nki_agent.isa.passes import per_element
from nki_agent.isa.rules import allowed_starts, same_dtype, same_free, same_partitions
from nki_agent.isa.signature import Operand

GEN3 = 3
GROUP = 16
"""Partitions that one GpSimd core reaches."""
QUADRANT = 32
KEEP = 255
"""The shuffle mask entry that leaves a partition as it is."""
PER_INDEX = (1, 2, 4, 8, 16, 32)
INDICES_MAX = 4096
TOPK_N = (8, 65535)
TOPK_K_MAX = 32767
GATHER_CYCLES = (28, 4)


def _finding(call: Call, what: str, got: object, limit: object, hint: str) -> Diagnostic:
    name = call.declaration.name
    return Diagnostic(
        code="NK308", what=f"{what} of `{name}`", got=str(got), limit=str(limit), hint=hint
    )


def _shuffle_mask(call: Call) -> Iterator[Diagnostic]:
    mask = call.attribute("shuffle_mask")
    assert isinstance(mask, tuple)
    good = len(mask) == QUADRANT
    good = good and all(0 <= m < QUADRANT or m == KEEP for m in mask if isinstance(m, int))
    if not good:
        yield _finding(
            call,
            "`shuffle_mask`",
            f"{len(mask)} entries",
            "32 entries from 0 to 31, or 255 to keep a partition",
            "entry i names the partition of each quadrant that partition i copies",
        )


def _shuffle_reach(call: Call) -> Iterator[Diagnostic]:
    """No entry that is used names a partition behind the end of `src`."""
    mask, held = call.attribute("shuffle_mask"), call.get("src").pattern.partitions
    assert isinstance(mask, tuple)
    for row in range(call.get("dst").pattern.partitions):
        entry = mask[row % QUADRANT] if row % QUADRANT < len(mask) else KEEP
        source = row // QUADRANT * QUADRANT + entry
        if entry != KEEP and source >= held:
            yield _finding(
                call,
                f"`shuffle_mask[{row % QUADRANT}]`",
                f"{entry}, partition {source} of `src`",
                f"partitions 0 to {held - 1} of `src`, or 255",
                "255 keeps the partition of `dst`",
            )
            return


def _shuffle_starts(call: Call) -> Iterator[Diagnostic]:
    operands = [call.get("dst"), call.get("src")]
    active = max(-(-o.pattern.partitions // QUADRANT) * QUADRANT for o in operands)
    for operand in operands:
        assert operand.pattern.partition is not None
        start = operand.pattern.partition[0]
        if start not in allowed_starts(active):
            yield Diagnostic(
                code="NK211",
                what=f"start partition of `{operand.role}` of `nc_stream_shuffle`"
                f" ({active} active partitions)",
                got=str(start),
                limit=" or ".join(map(str, allowed_starts(active))),
                hint="place the tile at an allowed partition",
            )


def _groups_of_16(role: str) -> Rule:
    def rule(call: Call) -> Iterator[Diagnostic]:
        partitions = call.get(role).pattern.partitions
        if partitions % GROUP:
            yield Diagnostic(
                code="NK303",
                what=f"partitions of `{role}` of `{call.declaration.name}`",
                got=str(partitions),
                limit="a multiple of 16",
                hint="each GpSimd core works on 16 partitions",
            )

    return rule


def _local_gather(call: Call) -> Iterator[Diagnostic]:
    each = call.attribute("num_elem_per_idx")
    if each not in PER_INDEX:
        choices = ", ".join(map(str, PER_INDEX))
        yield _finding(call, "`num_elem_per_idx`", each, choices, "gather in powers of two")
        return
    index = call.get("index").pattern
    per_core = index.free_elems * GROUP
    valid = call.attribute("num_valid_indices")
    count = per_core if valid is None else valid
    assert isinstance(count, int)
    assert isinstance(each, int)
    if not 0 < count <= min(per_core, INDICES_MAX):
        limit = min(per_core, INDICES_MAX)
        yield _finding(call, "valid indices of a core", count, f"1 to {limit}", "use fewer indices")
    elif call.get("dst").pattern.free_elems != count * each:
        yield Diagnostic(
            code="NK304",
            what="free size of `dst` of `local_gather`",
            got=str(call.get("dst").pattern.free_elems),
            limit=f"{count * each}, indices of a core times `num_elem_per_idx`",
            hint="allocate `dst` with that free size",
        )


def _local_gather_cycles(call: Call, _engine: Engine) -> float:
    each = call.attribute("num_elem_per_idx")
    assert isinstance(each, int)
    size = call.get("src_buffer").dtype.itemsize
    first, more = GATHER_CYCLES
    rate = ((first + more * each) / (more * each)) / min(more / size, each)
    return call.get("dst").pattern.free_elems / rate


def _nonzero_shape(call: Call) -> Iterator[Diagnostic]:
    wanted = call.get("src").pattern.free_elems + 1
    found = call.get("dst").pattern.free_elems
    if found != wanted:
        yield Diagnostic(
            code="NK304",
            what="free size of `dst` of `nonzero_with_count`",
            got=str(found),
            limit=f"{wanted}, one more than `src`",
            hint="the last element holds the count",
        )


def _bounds_shape(call: Call) -> Iterator[Diagnostic]:
    ids, dst = call.get("segment_ids").pattern, call.get("dst").pattern
    wanted = (1, 2, ids.free_elems)
    if ids.partitions != 1 or dst.shape != wanted:
        yield Diagnostic(
            code="NK304",
            what=f"shapes of `sequence_bounds`: segment_ids {list(ids.shape)}",
            got=str(list(dst.shape)),
            limit=f"[1, n] and {list(wanted)}",
            hint="row 0 of `dst` holds the starts, row 1 the ends",
        )


def _topk(call: Call) -> Iterator[Diagnostic]:
    n = call.attribute("n")
    k = call.get("val_dst").pattern.free_elems
    held = call.get("src").pattern.free_elems * GROUP
    if not isinstance(n, int) or not TOPK_N[0] <= n <= min(TOPK_N[1], held):
        limit = f"{TOPK_N[0]} to {min(TOPK_N[1], held)}, what `src` holds"
        yield _finding(call, "`n`", n, limit, "`src` holds n elements in a snake of 16 partitions")
    elif not 1 <= k <= min(TOPK_K_MAX, n):
        yield _finding(
            call, "free size of `val_dst` (k)", k, f"1 to {min(TOPK_K_MAX, n)}", "ask for fewer"
        )


def _topk_cycles(call: Call, _engine: Engine) -> float:
    n = call.attribute("n")
    assert isinstance(n, int)
    return 4.0 * n + call.get("val_dst").pattern.free_elems


def _gather_groups(call: Call, _engine: Engine) -> float:
    elems = call.get("indices").pattern.free_elems
    return math.ceil(elems / call.chip.bn_stats_free_max) * call.chip.bn_stats_free_max * 1.0


def first_of_groups(operand: Operand) -> range:
    """Partitions 0, 16, 32, ... of an operand: those that `nonzero_with_count` reads and writes."""
    return range(0, operand.pattern.partitions, GROUP)


GATHER = (
    Declaration(
        name="nc_stream_shuffle",
        parameters=(
            update("dst", *ON_CHIP),
            source("src", *ON_CHIP),
            option("shuffle_mask", Kind.INTS),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_dtype("dst", "src"),
            same_free("dst", "src"),
            _shuffle_mask,
            _shuffle_reach,
            _shuffle_starts,
        ),
        cycles=per_element("src"),
        page="nki.isa.nc_stream_shuffle",
    ),
    Declaration(
        name="local_gather",
        parameters=(
            output("dst", Memory.SBUF),
            source("src_buffer", Memory.SBUF),
            source("index", Memory.SBUF, dtypes=(DType.UINT16,)),
            option("num_elem_per_idx", Kind.INT, 1),
            option("num_valid_indices", Kind.INT, None),
        ),
        engines=any_of(Engine.GPSIMD),
        rules=(
            same_partitions("dst", "src_buffer", "index"),
            same_dtype("dst", "src_buffer"),
            _groups_of_16("src_buffer"),
            _local_gather,
        ),
        cycles=_local_gather_cycles,
        page="nki.isa.local_gather",
    ),
    Declaration(
        name="nc_n_gather",
        parameters=(
            output("dst", Memory.SBUF),
            source("data", Memory.SBUF),
            source("indices", Memory.SBUF, dtypes=(DType.UINT32,)),
        ),
        engines=any_of(Engine.GPSIMD),
        rules=(
            same_partitions("dst", "data", "indices"),
            same_free("dst", "indices"),
            same_dtype("dst", "data"),
        ),
        cycles=_gather_groups,
        page="nki.isa.nc_n_gather",
    ),
    Declaration(
        name="nonzero_with_count",
        parameters=(
            update("dst", Memory.SBUF, dtypes=(DType.INT32,)),
            source("src", Memory.SBUF, dtypes=(DType.FLOAT32, DType.INT32)),
            option("index_offset", Kind.INT, 0),
            option("padding_val", Kind.INT, -1),
        ),
        engines=any_of(Engine.GPSIMD),
        rules=(same_partitions("dst", "src"), _nonzero_shape),
        cycles=per_element("src"),
        page="nki.isa.nonzero_with_count",
        first_generation=GEN3,
    ),
    Declaration(
        name="sequence_bounds",
        parameters=(
            output("dst", Memory.SBUF, dtypes=(DType.FLOAT32, DType.INT32)),
            source("segment_ids", Memory.SBUF, dtypes=(DType.FLOAT32, DType.INT32)),
        ),
        engines=any_of(Engine.GPSIMD),
        rules=(same_dtype("dst", "segment_ids"), _bounds_shape),
        cycles=per_element("segment_ids", 2.0),
        page="nki.isa.sequence_bounds",
    ),
    Declaration(
        name="topk",
        parameters=(
            output("val_dst", Memory.SBUF, dtypes=(DType.BFLOAT16,)),
            output("idx_dst", Memory.SBUF, dtypes=(DType.UINT32,)),
            source("src", Memory.SBUF, dtypes=(DType.BFLOAT16,)),
            option("n", Kind.INT),
        ),
        engines=any_of(Engine.GPSIMD),
        rules=(
            same_partitions("val_dst", "idx_dst", "src"),
            same_free("val_dst", "idx_dst"),
            _groups_of_16("src"),
            _topk,
        ),
        cycles=_topk_cycles,
        page="nki.isa.topk",
    ),
)
"""Instructions that move elements by run-time indices or by value."""
