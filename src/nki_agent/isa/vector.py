"""Declarations of the element-wise, reducing and searching instructions of the Vector Engine."""

from __future__ import annotations

from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.declaration import (
    Call,
    Declaration,
    Kind,
    Rule,
    any_of,
    engine_option,
    option,
    output,
    scalar,
    source,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ON_CHIP, Engine, Memory, ReduceCommand
from nki_agent.isa.ops import ALU_OPS, Family
from nki_agent.isa.passes import per_element, streaming, two_inputs
from nki_agent.isa.rules import (
    arithmetic,
    binary_op,
    columns,
    dims_at_most,
    free_at_most,
    not_both_psum,
    one_family,
    ops_available,
    reduction_op,
    same_free,
    same_partitions,
)

FP32 = (DType.FLOAT32,)
PREDICATES = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)
INDICES = (DType.UINT16, DType.UINT32)
COMPARE = ("equal", "less", "less_equal", "greater", "greater_equal")
FLOAT32_LOWEST = -3.4028234663852886e38
SCALAR_ENGINE_PAIRS = {("multiply", "add"), ("multiply", None), ("add", None)}
WORD_INTS = (DType.INT32, DType.UINT32)
_FP8 = (DType.FLOAT8_E4M3, DType.FLOAT8_E5M2)
_HALF = (DType.FLOAT16, DType.BFLOAT16)
CUMULATIVE = (*_FP8, DType.FLOAT8_E4M3FN, *_HALF, DType.FLOAT32, *PREDICATES)
FLOATS = tuple(d for d in DType if d.is_float)
SELECTED = tuple(d for d in DType if d not in (DType.TFLOAT32, *WORD_INTS) and not d.is_packed)
EXP_SRC = (*_FP8, *_HALF, DType.FLOAT32, *PREDICATES, *WORD_INTS)
EXP_RES = (*_FP8, *_HALF, DType.FLOAT32, DType.TFLOAT32)
EXP_DST = (*EXP_RES, *PREDICATES, DType.INT32)
EXACT_INDICES = 2**24
"""Indices of `range_select` are compared in float32: larger ones are not exact."""
MAX8_DIMS = 3
GEN3 = 3
BN_STATS_FIELDS = 6
BN_AGGR_FIELDS = 2
BN_GROUP = 3
EIGHT = 8


def _touches_psum(call: Call) -> bool:
    return any(o.memory is Memory.PSUM for o in call.signature.operands)


def _tensor_tensor_engines(call: Call) -> tuple[Engine, ...]:
    allowed = ALU_OPS[str(call.attribute("op"))].engines
    engines = [e for e in allowed if e in (Engine.VECTOR, Engine.GPSIMD)]
    if _touches_psum(call):
        engines = [e for e in engines if e is not Engine.GPSIMD]
    words = all(o.dtype in WORD_INTS for o in call.signature.operands)
    return tuple(reversed(engines)) if words else tuple(engines)


def _tensor_scalar_engines(call: Call) -> tuple[Engine, ...]:
    names = [n for n in (call.attribute("op0"), call.attribute("op1")) if n is not None]
    if "rsqrt" in names or "power" in names:
        return () if _touches_psum(call) else (Engine.GPSIMD,)
    engines = [Engine.VECTOR]
    pair = (names[0], names[1] if len(names) > 1 else None)
    if pair in SCALAR_ENGINE_PAIRS and call.chip.generation >= GEN3:
        engines.append(Engine.SCALAR)
    return tuple(engines)


def _unary_has_no_operand(call: Call) -> Iterator[Diagnostic]:
    for op_name, operand_name in (("op0", "operand0"), ("op1", "operand1")):
        value = call.attribute(op_name)
        if value is None or not ALU_OPS[str(value)].is_unary:
            continue
        if call.find(operand_name) is not None:
            yield Diagnostic(
                code="NK308",
                what=f"`{operand_name}` of `{call.declaration.name}` with the unary `nl.{value}`",
                got="a tile",
                limit="None or 0",
                hint=f"leave `{operand_name}` out",
            )


def _second_stage_is_whole(call: Call) -> Iterator[Diagnostic]:
    value = call.attribute("op1")
    has_operand = call.signature.find("operand1") is not None
    takes_operand = value is not None and not ALU_OPS[str(value)].is_unary
    if value is None and has_operand:
        yield Diagnostic(
            code="NK308",
            what="`op1` of `tensor_scalar` with an `operand1`",
            got="None",
            limit="an operator",
            hint="pass both or neither",
        )
    elif takes_operand and not has_operand:
        yield Diagnostic(
            code="NK308",
            what=f"`operand1` of `tensor_scalar` with `op1=nl.{value}`",
            got="None",
            limit="a number or a tile of shape (P, 1)",
            hint="pass both or neither",
        )


def _move_last(rank: int, axes: tuple[int, ...]) -> str:
    """The view in which these axes come last; nothing where the partition axis is one of them."""
    if 0 in axes or not set(axes) <= set(range(rank)):
        return ""
    order = (*(axis for axis in range(rank) if axis not in axes), *axes)
    last = tuple(range(rank - len(axes), rank))
    named = last[0] if len(last) == 1 else last
    return f"move the axis to the end: `data.permute({order})` with `axis={named}`; "


def _reduce_axes(call: Call) -> Iterator[Diagnostic]:
    data, dst = call.get("data"), call.get("dst")
    rank = len(data.shape)
    axes = call.attribute("axis")
    assert isinstance(axes, tuple)
    wanted = tuple(range(rank - len(axes), rank))
    if axes != wanted or 0 in axes:
        yield Diagnostic(
            code="NK308",
            what=f"`axis` of `tensor_reduce` on a tile of shape {list(data.shape)}",
            got=str(axes),
            limit="the last free dimensions, ending at the final one, never axis 0",
            hint=f"{_move_last(rank, axes)}reduce over partitions with `nc_matmul` by a column of"
            " ones",
        )
        return
    kept = 1
    for size in data.shape[1 : rank - len(axes)]:
        kept *= size
    if dst.pattern.free_elems != kept:
        yield Diagnostic(
            code="NK304",
            what="free size of `dst` of `tensor_reduce`",
            got=str(dst.pattern.free_elems),
            limit=str(kept),
            hint="`dst` holds one element for each group that is reduced",
        )


def _free_is(role: str, wanted: int) -> Rule:
    def rule(call: Call) -> Iterator[Diagnostic]:
        operand = call.find(role)
        if operand is not None and operand.pattern.free_elems != wanted:
            yield Diagnostic(
                code="NK304",
                what=f"free size of `{role}` of `{call.declaration.name}`",
                got=str(operand.pattern.free_elems),
                limit=str(wanted),
                hint=f"allocate it with shape (P, {wanted})",
            )

    return rule


def _free_between(role: str) -> Rule:
    def rule(call: Call) -> Iterator[Diagnostic]:
        size = call.get(role).pattern.free_elems
        low, high = call.chip.max8_free_min, call.chip.max8_free_max
        if not low <= size <= high:
            yield Diagnostic(
                code="NK305",
                what=f"free size of `{role}` of `{call.declaration.name}`",
                got=str(size),
                limit=f"{low} to {high}",
                hint="pad short rows, or split long ones and merge the results",
            )

    return rule


def _bn_groups(call: Call) -> Iterator[Diagnostic]:
    size = call.get("data").pattern.free_elems
    if size % BN_GROUP:
        yield Diagnostic(
            code="NK305",
            what="free size of `data` of `bn_aggr`",
            got=str(size),
            limit="a multiple of 3",
            hint="pass the (count, mean, variance*count) triples that `bn_stats` makes",
        )


def _misused(call: Call, what: str, got: object, limit: object, hint: str) -> Diagnostic:
    what = f"{what} of `{call.declaration.name}`"
    return Diagnostic(code="NK308", what=what, got=str(got), limit=str(limit), hint=hint)


def _false_is_lowest(call: Call) -> Iterator[Diagnostic]:
    value = call.attribute("on_false_value")
    if value != FLOAT32_LOWEST:
        yield _misused(call, "`on_false_value`", value, "the lowest float32", "leave it out")


def _exact_indices(call: Call) -> Iterator[Diagnostic]:
    first = call.attribute("range_start")
    assert isinstance(first, int | float)
    end = first + call.get("on_true_tile").pattern.free_elems
    if not -EXACT_INDICES <= first <= end <= EXACT_INDICES:
        got = f"{first}, so the last index is {end - 1}"
        hint = "indices are compared in float32; subtract the start from the bounds instead"
        yield _misused(call, "`range_start`", got, "indices below 2**24", hint)


def _negates_numbers(call: Call) -> Iterator[Diagnostic]:
    op = ALU_OPS[str(call.attribute("op"))]
    if call.attribute("negate") and op.family is Family.BITVEC:
        hint = "only arithmetic reductions can be negated"
        yield _misused(call, f"`negate` with nl.{op.name}", "True", "False", hint)


def _commands(*allowed: ReduceCommand) -> Rule:
    def rule(call: Call) -> Iterator[Diagnostic]:
        value = call.attribute("reduce_cmd")
        if value not in allowed:
            hint = "use reset_reduce for a single tile"
            yield _misused(call, "`reduce_cmd`", value, " or ".join(allowed), hint)

    return rule


def _load_has_value(name: str) -> Rule:
    def rule(call: Call) -> Iterator[Diagnostic]:
        loads = call.attribute("reduce_cmd") == ReduceCommand.LOAD_REDUCE
        if loads and call.signature.find(name) is None:
            yield Diagnostic(
                code="NK308",
                what=f"`reduce_cmd=load_reduce` of `{call.declaration.name}` without `{name}`",
                hint=f"pass the start value as `{name}`",
            )

    return rule


_R = ReduceCommand

_ELEMENTWISE = (
    Declaration(
        name="tensor_tensor",
        parameters=(
            output("dst", *ON_CHIP),
            source("data1", *ON_CHIP),
            source("data2", *ON_CHIP),
            option("op", Kind.ALU_OP),
            engine_option(),
        ),
        engines=_tensor_tensor_engines,
        rules=(
            same_partitions("dst", "data1", "data2"),
            same_free("dst", "data1", "data2"),
            not_both_psum("data1", "data2"),
            binary_op("op"),
            one_family("op"),
            ops_available("op"),
        ),
        cycles=two_inputs("data1", "data2"),
        page="nki.isa.tensor_tensor",
    ),
    Declaration(
        name="tensor_scalar",
        parameters=(
            output("dst", *ON_CHIP),
            source("data", *ON_CHIP),
            option("op0", Kind.ALU_OP),
            scalar("operand0", *ON_CHIP),
            option("reverse0", Kind.FLAG, default=False),
            option("op1", Kind.ALU_OP, None),
            scalar("operand1", *ON_CHIP, default=None),
            option("reverse1", Kind.FLAG, default=False),
            engine_option(),
        ),
        engines=_tensor_scalar_engines,
        rules=(
            same_partitions("dst", "data", "operand0", "operand1"),
            same_free("dst", "data"),
            columns("operand0", "operand1"),
            one_family("op0", "op1"),
            ops_available("op0", "op1"),
            _unary_has_no_operand,
            _second_stage_is_whole,
        ),
        cycles=streaming("data"),
        page="nki.isa.tensor_scalar",
    ),
    Declaration(
        name="scalar_tensor_tensor",
        parameters=(
            output("dst", *ON_CHIP),
            source("data", *ON_CHIP),
            option("op0", Kind.ALU_OP),
            scalar("operand0", *ON_CHIP),
            option("op1", Kind.ALU_OP),
            source("operand1", *ON_CHIP),
            option("reverse0", Kind.FLAG, default=False),
            option("reverse1", Kind.FLAG, default=False),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "data", "operand0", "operand1"),
            same_free("dst", "data", "operand1"),
            columns("operand0"),
            not_both_psum("data", "operand1"),
            arithmetic("op0", "op1"),
            binary_op("op1"),
            one_family("op0", "op1"),
            ops_available("op0", "op1"),
        ),
        cycles=two_inputs("data", "operand1"),
        page="nki.isa.scalar_tensor_tensor",
    ),
    Declaration(
        name="reciprocal",
        parameters=(output("dst", *ON_CHIP), source("data", *ON_CHIP)),
        engines=any_of(Engine.VECTOR),
        rules=(same_partitions("dst", "data"), same_free("dst", "data")),
        cycles=per_element("data", 8.0),
        page="nki.isa.reciprocal",
    ),
    Declaration(
        name="tensor_tensor_scan",
        parameters=(
            output("dst", *ON_CHIP),
            source("data0", *ON_CHIP),
            source("data1", *ON_CHIP),
            scalar("initial", *ON_CHIP, dtypes=FP32),
            option("op0", Kind.ALU_OP),
            option("op1", Kind.ALU_OP),
            option("reverse0", Kind.FLAG, default=False),
            option("reverse1", Kind.FLAG, default=False),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "data0", "data1", "initial"),
            same_free("dst", "data0", "data1"),
            columns("initial"),
            not_both_psum("data0", "data1"),
            arithmetic("op0", "op1"),
            binary_op("op0", "op1"),
            one_family("op0", "op1"),
            ops_available("op0", "op1"),
        ),
        cycles=per_element("data0", 2.0),
        page="nki.isa.tensor_tensor_scan",
    ),
)

_REDUCING = (
    Declaration(
        name="tensor_reduce",
        parameters=(
            output("dst", *ON_CHIP),
            option("op", Kind.ALU_OP),
            source("data", *ON_CHIP),
            option("axis", Kind.AXES),
            option("negate", Kind.FLAG, default=False),
            option("keepdims", Kind.FLAG, default=False),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            reduction_op("op"),
            one_family("op"),
            _negates_numbers,
            _reduce_axes,
            same_partitions("dst", "data"),
        ),
        cycles=per_element("data"),
        page="nki.isa.tensor_reduce",
    ),
    Declaration(
        name="tensor_scalar_reduce",
        parameters=(
            output("dst", *ON_CHIP),
            source("data", *ON_CHIP),
            option("op0", Kind.ALU_OP),
            scalar("operand0", *ON_CHIP),
            option("reduce_op", Kind.ALU_OP),
            output("reduce_res", *ON_CHIP, default=None),
            option("reverse0", Kind.FLAG, default=False),
            option("reduce_cmd", Kind.ENUM, _R.RESET_REDUCE, choices=ReduceCommand),
            scalar("reduce_init", *ON_CHIP, default=None),
            option("reduce_res_negate", Kind.FLAG, default=False),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "data", "operand0", "reduce_res", "reduce_init"),
            same_free("dst", "data"),
            columns("operand0", "reduce_res", "reduce_init"),
            reduction_op("reduce_op", "add", "multiply", "maximum", "minimum"),
            arithmetic("op0"),
            one_family("op0", "reduce_op"),
            _commands(_R.RESET_REDUCE, _R.REDUCE, _R.LOAD_REDUCE),
            _load_has_value("reduce_init"),
        ),
        cycles=per_element("data", extra=64.0),
        page="nki.isa.tensor_scalar_reduce",
    ),
    Declaration(
        name="tensor_scalar_cumulative",
        parameters=(
            output("dst", *ON_CHIP, dtypes=CUMULATIVE),
            source("src", *ON_CHIP, dtypes=CUMULATIVE),
            option("op0", Kind.ALU_OP),
            option("op1", Kind.ALU_OP),
            scalar("imm0", *ON_CHIP, dtypes=FP32),
            scalar("imm1", *ON_CHIP, default=None, dtypes=FP32),
            option("reduce_cmd", Kind.ENUM, _R.RESET_REDUCE, choices=ReduceCommand),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "src", "imm0", "imm1"),
            same_free("dst", "src"),
            columns("imm0", "imm1"),
            binary_op("op0"),
            one_family("op0", "op1"),
            reduction_op("op1", "add", "subtract", "multiply", "maximum", "minimum"),
            _commands(_R.RESET_REDUCE, _R.REDUCE, _R.LOAD_REDUCE),
            _load_has_value("imm1"),
        ),
        cycles=per_element("src"),
        page="nki.isa.tensor_scalar_cumulative",
    ),
    Declaration(
        name="exponential",
        parameters=(
            output("dst", *ON_CHIP, dtypes=EXP_DST),
            source("src", *ON_CHIP, dtypes=EXP_SRC),
            scalar("max_value", *ON_CHIP, default=0.0, dtypes=FP32),
            output("reduce_res", *ON_CHIP, default=None, dtypes=EXP_RES),
            option("reduce_cmd", Kind.ENUM, _R.IDLE, choices=ReduceCommand),
            scalar("reduce_init", *ON_CHIP, default=0.0, dtypes=FP32),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "src", "max_value", "reduce_res", "reduce_init"),
            same_free("dst", "src"),
            columns("max_value", "reduce_res", "reduce_init"),
            _commands(_R.IDLE, _R.RESET_REDUCE, _R.REDUCE, _R.LOAD_REDUCE),
        ),
        cycles=per_element("src", 0.25),
        page="nki.isa.exponential",
        first_generation=4,
    ),
    Declaration(
        name="bn_stats",
        parameters=(output("dst", *ON_CHIP), source("data", *ON_CHIP)),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "data"),
            free_at_most("data", lambda c: c.chip.bn_stats_free_max, fix="split rows into chunks"),
            _free_is("dst", BN_STATS_FIELDS),
        ),
        cycles=per_element("data"),
        page="nki.isa.bn_stats",
    ),
    Declaration(
        name="bn_aggr",
        parameters=(output("dst", *ON_CHIP), source("data", *ON_CHIP)),
        engines=any_of(Engine.VECTOR),
        rules=(same_partitions("dst", "data"), _bn_groups, _free_is("dst", BN_AGGR_FIELDS)),
        cycles=per_element("data", 13.0 / 3.0),
        page="nki.isa.bn_aggr",
    ),
    Declaration(
        name="range_select",
        parameters=(
            output("dst", *ON_CHIP),
            source("on_true_tile", *ON_CHIP, dtypes=FLOATS),
            option("comp_op0", Kind.ALU_OP),
            option("comp_op1", Kind.ALU_OP),
            source("bound0", *ON_CHIP, dtypes=FP32),
            source("bound1", *ON_CHIP, dtypes=FP32),
            option("reduce_cmd", Kind.ENUM, _R.RESET_REDUCE, choices=ReduceCommand),
            output("reduce_res", *ON_CHIP, default=None, dtypes=FP32),
            option("reduce_op", Kind.ALU_OP, "maximum"),
            option("range_start", Kind.INT, 0),
            option("on_false_value", Kind.INT, FLOAT32_LOWEST),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "on_true_tile", "bound0", "bound1", "reduce_res"),
            same_free("dst", "on_true_tile"),
            columns("bound0", "bound1", "reduce_res"),
            reduction_op("reduce_op", "maximum"),
            reduction_op("comp_op0", *COMPARE),
            reduction_op("comp_op1", *COMPARE),
            _false_is_lowest,
            _exact_indices,
            _commands(_R.RESET_REDUCE, _R.REDUCE, _R.IDLE),
        ),
        cycles=per_element("on_true_tile"),
        page="nki.isa.range_select",
        first_generation=GEN3,
    ),
    Declaration(
        name="select_reduce",
        parameters=(
            output("dst", *ON_CHIP),
            source("predicate", *ON_CHIP, dtypes=PREDICATES),
            source("on_true", *ON_CHIP, dtypes=SELECTED),
            scalar("on_false", *ON_CHIP, dtypes=FP32),
            output("reduce_res", *ON_CHIP, default=None, dtypes=FLOATS),
            option("reduce_cmd", Kind.ENUM, _R.IDLE, choices=ReduceCommand),
            option("reduce_op", Kind.ALU_OP, "maximum"),
            option("reverse_pred", Kind.FLAG, default=False),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "predicate", "on_true", "on_false", "reduce_res"),
            same_free("dst", "predicate", "on_true"),
            columns("on_false", "reduce_res"),
            not_both_psum("predicate", "on_true"),
            reduction_op("reduce_op", "maximum"),
            _commands(_R.IDLE, _R.RESET_REDUCE, _R.REDUCE),
        ),
        cycles=two_inputs("predicate", "on_true"),
        page="nki.isa.select_reduce",
    ),
)

_SEARCHING = (
    Declaration(
        name="max8",
        parameters=(output("dst", *ON_CHIP), source("src", *ON_CHIP)),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "src"),
            dims_at_most("src", MAX8_DIMS),
            _free_between("src"),
            _free_is("dst", EIGHT),
        ),
        cycles=per_element("src"),
        page="nki.isa.max8",
    ),
    Declaration(
        name="nc_find_index8",
        parameters=(
            output("dst", *ON_CHIP, dtypes=INDICES),
            source("data", *ON_CHIP),
            source("vals", *ON_CHIP),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "data", "vals"),
            dims_at_most("data", MAX8_DIMS),
            dims_at_most("vals", MAX8_DIMS),
            _free_between("data"),
            _free_is("vals", EIGHT),
            _free_is("dst", EIGHT),
        ),
        cycles=per_element("data"),
        page="nki.isa.nc_find_index8",
    ),
    Declaration(
        name="nc_match_replace8",
        parameters=(
            output("dst", *ON_CHIP),
            source("data", *ON_CHIP),
            source("vals", *ON_CHIP),
            option("imm", Kind.VALUE),
            output("dst_idx", *ON_CHIP, default=None, dtypes=INDICES),
        ),
        engines=any_of(Engine.VECTOR),
        rules=(
            same_partitions("dst", "data", "vals", "dst_idx"),
            same_free("dst", "data"),
            _free_between("data"),
            _free_is("vals", EIGHT),
            _free_is("dst_idx", EIGHT),
        ),
        cycles=per_element("data"),
        page="nki.isa.nc_match_replace8",
    ),
)

VECTOR = (*_ELEMENTWISE, *_REDUCING, *_SEARCHING)
"""Instructions whose home is the Vector Engine."""
