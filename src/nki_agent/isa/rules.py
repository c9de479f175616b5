"""Rules that declarations are made of; each yields what a signature breaks.

A rule reads only the signature and the chip, so it runs once a signature. Codes and words are the
same wherever the rule is run: in the tracer for its message, and again in the trusted process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.declaration import Call, Declaration, Kind, Parameter, Rule
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, Memory
from nki_agent.isa.ops import ACTIVATIONS, ALU_OPS, Family
from nki_agent.isa.signature import Operand

PARTITION_STARTS = {128: (0,), 64: (0, 64), 32: (0, 32, 64, 96)}
"""Start partitions that an access of up to so many partitions may have (architecture guide)."""


def _name(call: Call, role: str) -> str:
    return f"`{role}` of `{call.declaration.name}`"


def _shape(operand: Operand) -> str:
    return "[" + ", ".join(map(str, operand.shape)) + "]"


def check_operands(call: Call) -> Iterator[Diagnostic]:
    """Rules of every instruction: memories, dtypes, partitions, axis counts."""
    for operand in call.signature.operands:
        parameter = call.declaration.parameter(operand.role)
        if operand.is_immediate:
            continue
        yield from _check_memory(call, operand, parameter)
        yield from _check_dtype(call, operand, parameter)
        if operand.memory is not None and operand.memory.is_on_chip:
            yield from _check_partitions(call, operand, parameter)


def _check_memory(call: Call, operand: Operand, parameter: Parameter) -> Iterator[Diagnostic]:
    allowed = parameter.memories
    if allowed and operand.memory not in allowed:
        names = sorted({m.value if m.is_on_chip else "hbm" for m in allowed}, reverse=True)
        yield Diagnostic(
            code="NK301",
            what=f"memory of {_name(call, operand.role)}",
            got=str(operand.memory),
            limit=" or ".join(names),
            hint=_memory_hint(call, operand, allowed),
        )


def _memory_hint(call: Call, operand: Operand, allowed: tuple[Memory, ...]) -> str:
    if operand.memory is Memory.PSUM:
        return "copy the PSUM tile to SBUF first: `nisa.tensor_copy(dst=sbuf_tile, src=psum_tile)`"
    if operand.memory is not None and not operand.memory.is_on_chip:
        return "load it first: `nisa.dma_copy(dst=sbuf_tile, src=hbm_view)`"
    if Memory.PSUM in allowed:
        return "allocate it with `buffer=nl.psum`"
    return f"see {call.declaration.page}"


def _check_dtype(call: Call, operand: Operand, parameter: Parameter) -> Iterator[Diagnostic]:
    if parameter.dtypes and operand.dtype not in parameter.dtypes:
        yield Diagnostic(
            code="NK302",
            what=f"dtype of {_name(call, operand.role)}",
            got=operand.dtype.value,
            limit=" or ".join(d.value for d in parameter.dtypes),
            hint="copy it into a tile of an allowed dtype with `nisa.tensor_copy`",
        )


def _check_partitions(call: Call, operand: Operand, parameter: Parameter) -> Iterator[Diagnostic]:
    partition = operand.pattern.partition
    if partition is None:
        return
    start, _, count = partition
    limit = call.chip.partitions
    if count > limit:
        yield Diagnostic(
            code="NK201",
            what=f"partition dimension of {_name(call, operand.role)}",
            got=str(count),
            limit=str(limit),
            hint="split the first dimension into tiles of at most 128 rows",
        )
        return
    allowed = tuple(s + o for s in allowed_starts(count) for o in parameter.start_offsets)
    if call.declaration.cycles is not None and start not in allowed:
        yield Diagnostic(
            code="NK211",
            what=f"start partition of {_name(call, operand.role)} ({count} partitions)",
            got=str(start),
            limit=" or ".join(map(str, allowed)),
            hint="give the tile its own tensor that starts at partition 0, or move it with"
            " `nisa.dma_copy`",
        )
    dims = sum(1 for _, n in operand.pattern.free if n > 1)
    if call.declaration.cycles is not None and dims > call.chip.instruction_free_dims_max:
        yield Diagnostic(
            code="NK305",
            what=f"free dimensions of {_name(call, operand.role)}",
            got=str(dims),
            limit=str(call.chip.instruction_free_dims_max),
            hint="merge contiguous dimensions with `reshape`, or loop over one of them",
        )


def allowed_starts(count: int) -> tuple[int, ...]:
    """Start partitions that an access of `count` partitions may have."""
    for size in sorted(PARTITION_STARTS):
        if count <= size:
            return PARTITION_STARTS[size]
    return (0,)


def same_partitions(*roles: str) -> Rule:
    """These operands touch the same number of partitions."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        first, *others = [o for role in roles if (o := call.find(role))]
        for other in others:
            if other.pattern.partitions != first.pattern.partitions:
                yield Diagnostic(
                    code="NK303",
                    what=(
                        f"partition counts of `{call.declaration.name}` differ:"
                        f" `{first.role}` {_shape(first)}, `{other.role}` {_shape(other)}"
                    ),
                    hint="slice both to the same number of rows; there is no broadcast over"
                    " partitions",
                )

    return rule


def same_free(*roles: str) -> Rule:
    """These operands hold the same number of elements in each partition."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        first, *others = [o for role in roles if (o := call.find(role))]
        for other in others:
            if other.pattern.free_elems != first.pattern.free_elems:
                yield Diagnostic(
                    code="NK304",
                    what=(
                        f"free sizes of `{call.declaration.name}` differ:"
                        f" `{first.role}` {_shape(first)}, `{other.role}` {_shape(other)}"
                    ),
                    hint="make the free sizes equal; broadcast a size-1 axis with"
                    " `.broadcast(dim, size)`",
                )

    return rule


def same_elements(first_role: str, second_role: str) -> Rule:
    """Both operands hold the same number of elements in all (DMA)."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        first, second = call.get(first_role), call.get(second_role)
        counts = [o.pattern.partitions * o.pattern.free_elems for o in (first, second)]
        if counts[0] != counts[1]:
            yield Diagnostic(
                code="NK310",
                what=(
                    f"element counts of `{call.declaration.name}` differ: `{first.role}`"
                    f" {_shape(first)} has {counts[0]}, `{second.role}` {_shape(second)} has"
                    f" {counts[1]}"
                ),
                hint=_sides(first, second),
            )

    return rule


def _sides(first: Operand, second: Operand) -> str:
    """The one axis whose sizes differ, where the shapes are alike otherwise."""
    hint = "slice both sides to the same shape; check the tail tile and the index arithmetic"
    if len(first.shape) != len(second.shape):
        return hint
    pairs = enumerate(zip(first.shape, second.shape, strict=True))
    odd = [(axis, sizes) for axis, sizes in pairs if sizes[0] != sizes[1]]
    if len(odd) != 1:
        return hint
    axis, sizes = odd[0]
    return f"axis {axis} is {sizes[0]} in `{first.role}` and {sizes[1]} in `{second.role}`: {hint}"


def columns(*roles: str) -> Rule:
    """Each of these, where it is a tensor, has one element in each partition of `reference`."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        for role in roles:
            operand = call.find(role)
            if operand is not None and operand.pattern.free_elems != 1:
                yield Diagnostic(
                    code="NK312",
                    what=f"shape of {_name(call, role)}",
                    got=_shape(operand),
                    limit=f"[{operand.pattern.partitions}, 1]",
                    hint="pass one value for each partition: a tile of shape (P, 1), or a number; a"
                    " whole tile goes in with `nisa.tensor_tensor(dst=..., data1=..., data2=...,"
                    " op=nl.add)` before",
                )

    return rule


def not_both_psum(first_role: str, second_role: str) -> Rule:
    """At most one of the two inputs may be in PSUM."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        first, second = call.find(first_role), call.find(second_role)
        if first and second and first.memory is second.memory is Memory.PSUM:
            yield Diagnostic(
                code="NK309",
                what=f"`{first_role}` and `{second_role}` of `{call.declaration.name}` are both"
                " in PSUM",
                hint="copy one of them to SBUF with `nisa.tensor_copy`",
            )

    return rule


def same_dtype(first_role: str, second_role: str) -> Rule:
    """Both operands have one dtype."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        first, second = call.find(first_role), call.find(second_role)
        if first and second and first.dtype is not second.dtype:
            yield Diagnostic(
                code="NK302",
                what=f"dtype of {_name(call, second_role)}",
                got=second.dtype.value,
                limit=f"{first.dtype.value}, as `{first_role}`",
                hint=f"allocate `{first_role}` with the dtype of `{second_role}`, or cast with"
                " `nisa.tensor_copy`",
            )

    return rule


def free_at_most(role: str, limit: Callable[[Call], int], *, fix: str) -> Rule:
    """The free size of `role` is bounded by a fact of the chip."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        operand = call.find(role)
        if operand is not None and operand.pattern.free_elems > limit(call):
            yield Diagnostic(
                code="NK305",
                what=f"free size of {_name(call, role)}",
                got=str(operand.pattern.free_elems),
                limit=str(limit(call)),
                hint=fix,
            )

    return rule


def one_family(*names: str) -> Rule:
    """The named operators are all arithmetic, or all bitvec on integers."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        ops = [ALU_OPS[str(v)] for name in names if (v := call.attribute(name)) is not None]
        families = {op.family for op in ops}
        if len(families) > 1:
            yield Diagnostic(
                code="NK307",
                what=f"operators {', '.join(op.name for op in ops)} of `{call.declaration.name}`"
                " mix arithmetic and bitwise kinds",
                hint="use two instructions",
            )
        if families == {Family.BITVEC}:
            yield from _integers_only(call)
            return
        yield from _fp32_scalars(call)

    return rule


def arithmetic(*names: str) -> Rule:
    """None of the named operators is a bitwise one."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        for name in names:
            value = call.attribute(name)
            if value is not None and ALU_OPS[str(value)].family is Family.BITVEC:
                yield Diagnostic(
                    code="NK307",
                    what=f"`{name}` of `{call.declaration.name}`",
                    got=f"nl.{value}",
                    limit="an arithmetic operator",
                    hint="bitwise operators run in `nisa.tensor_tensor` and `nisa.tensor_scalar`",
                )

    return rule


def dims_at_most(role: str, limit: int) -> Rule:
    """The operand has at most so many dimensions, the partition dimension included."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        operand = call.find(role)
        if operand is not None and len(operand.shape) > limit:
            yield Diagnostic(
                code="NK305",
                what=f"dimensions of {_name(call, role)}",
                got=str(len(operand.shape)),
                limit=str(limit),
                hint="merge the free dimensions with `reshape`",
            )

    return rule


def _integers_only(call: Call) -> Iterator[Diagnostic]:
    for operand in call.signature.operands:
        if operand.dtype.is_float:
            yield Diagnostic(
                code="NK302",
                what=f"dtype of {_name(call, operand.role)} with a bitwise operator",
                got=operand.dtype.value,
                limit="an integer dtype",
                hint="bitwise operators work on integer bit patterns; use `.view(nl.int32)` to"
                " see float bits",
            )


def _fp32_scalars(call: Call) -> Iterator[Diagnostic]:
    for operand in call.signature.operands:
        parameter = call.declaration.parameter(operand.role)
        scalar_tile = parameter.kind is Kind.SCALAR and not operand.is_immediate
        if scalar_tile and not parameter.dtypes and operand.dtype is not DType.FLOAT32:
            yield Diagnostic(
                code="NK302",
                what=f"dtype of {_name(call, operand.role)}",
                got=operand.dtype.value,
                limit="float32",
                hint="keep per-partition scalars in float32 tiles",
            )


def ops_available(*names: str) -> Rule:
    """Each named attribute holds an operator that exists on this chip."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        for name in names:
            value = call.attribute(name)
            if value is None:
                continue
            op = ALU_OPS[str(value)]
            if op.first_generation > call.chip.generation:
                yield not_on_generation(f"operator `nl.{op.name}`", op.first_generation, call)

    return rule


def reduction_op(name: str, *allowed: str) -> Rule:
    """The attribute holds an operator that can reduce."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        value = call.attribute(name)
        if value is None:
            return
        good = value in allowed if allowed else ALU_OPS[str(value)].is_reduction
        if not good:
            choices = allowed or tuple(op.name for op in ALU_OPS.values() if op.is_reduction)
            yield Diagnostic(
                code="NK307",
                what=f"`{name}` of `{call.declaration.name}`",
                got=f"nl.{value}",
                limit=" or ".join(f"nl.{c}" for c in choices),
                hint="choose one of the allowed operators",
            )

    return rule


def binary_op(*names: str) -> Rule:
    """The attribute holds an operator that takes two inputs."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        for name in names:
            value = call.attribute(name)
            if value is not None and ALU_OPS[str(value)].is_unary:
                yield Diagnostic(
                    code="NK307",
                    what=f"`{name}` of `{call.declaration.name}`",
                    got=f"nl.{value}",
                    limit="an operator with two inputs",
                    hint="a function of one input goes through `nisa.activation`",
                )

    return rule


ROW_TILES = {128: 2, 64: 2, 32: 3}
"""Row tile sizes of the Tensor Engine, with the first generation that has them."""


def tiling(call: Call) -> Iterator[Diagnostic]:
    """`tile_position` and `tile_size` of a matmul come together and name rows of the array.

    Column tiling is documented in prose and excluded by the parameters' text; columns are accepted
    where the stationary operand fits them, since published kernels use them.
    """
    position, size = call.attribute("tile_position"), call.attribute("tile_size")
    if not position and not size:
        return
    pairs = [v for v in (position, size) if isinstance(v, tuple) and len(v) == len("rc")]
    if len(pairs) != len("rc"):
        yield _tile_finding(call, f"{position} and {size}", "both as (row, column), or neither")
        return
    (row, column), (rows, columns) = pairs
    stationary = call.get("stationary").pattern
    sizes = [n for n, first in ROW_TILES.items() if first <= call.chip.generation]
    good = rows in sizes and columns in sizes
    good = good and all(isinstance(v, int) for v in (row, column, rows, columns))
    if not good or row % rows or column % columns:
        limit = f"sizes {sizes}, positions in multiples of them"
        yield _tile_finding(call, f"{position} and {size}", limit)
    elif stationary.partitions > rows or row + rows > call.chip.partitions:
        yield _tile_finding(call, f"K={stationary.partitions} at row {row}", f"at most {rows} rows")
    elif columns < call.chip.matmul_stationary_free_max and stationary.free_elems > columns:
        got = f"M={stationary.free_elems}"
        yield _tile_finding(call, got, f"at most {columns} columns")
    elif column + columns > call.chip.matmul_stationary_free_max:
        yield _tile_finding(call, f"column {column}", f"{columns} columns inside of the array")


def _tile_finding(call: Call, got: str, limit: str) -> Diagnostic:
    return Diagnostic(
        code="NK308",
        what=f"`tile_position` and `tile_size` of `{call.declaration.name}`",
        got=got,
        limit=limit,
        hint="leave both out to use the whole array",
    )


def not_on_generation(what: str, first_generation: int, call: Call) -> Diagnostic:
    """The finding for something that an older chip does not have."""
    return Diagnostic(
        code="NK311",
        what=f"{what} on NeuronCore-v{call.chip.generation}",
        got="not available",
        limit=f"NeuronCore-v{first_generation} or newer",
        hint="choose another target, or write it with other instructions",
    )


def engine_for(call: Call) -> Engine:
    """The engine that runs a call: the one asked for, else the best that may.

    Call it only for a signature that `check_call` accepts.
    """
    engines = call.declaration.engines(call)
    asked = call.signature.engine
    return asked if asked is not None and asked in engines else engines[0]


def check_call(call: Call) -> list[Diagnostic]:
    """Everything that is wrong with one signature on one chip."""
    declaration = call.declaration
    if declaration.first_generation > call.chip.generation:
        return [
            not_on_generation(
                f"instruction `nisa.{declaration.name}`", declaration.first_generation, call
            )
        ]
    findings = [*_check_names(declaration, call), *check_operands(call)]
    if findings:
        return findings
    for rule in declaration.rules:
        findings.extend(rule(call))
    return findings or list(_check_engine(call))


_KNOWN_OPS: dict[Kind, frozenset[str]] = {
    Kind.ALU_OP: frozenset(ALU_OPS),
    Kind.ACTIVATION_OP: frozenset(ACTIVATIONS),
}


def _check_names(declaration: Declaration, call: Call) -> Iterator[Diagnostic]:
    for parameter in declaration.attribute_parameters:
        value = call.attribute(parameter.name)
        known = _KNOWN_OPS.get(parameter.kind)
        only_in = ALU_OPS[str(value)].only_in if value in ALU_OPS else None
        strange = known is not None and value is not None and value not in known
        if known is not None and (strange or only_in not in (None, declaration.name)):
            yield Diagnostic(
                code="NK307",
                what=f"`{parameter.name}` of `{declaration.name}`",
                got=f"nl.{value}",
                limit="an operator of this instruction",
                hint="the operators are: " + ", ".join(sorted(known)),
            )
        changed = value is not None and value != parameter.default
        if changed and parameter.first_generation > call.chip.generation:
            what = f"`{parameter.name}={value}` of `{declaration.name}`"
            yield not_on_generation(what, parameter.first_generation, call)


def _check_engine(call: Call) -> Iterator[Diagnostic]:
    engines = call.declaration.engines(call)
    asked = call.signature.engine
    if not engines:
        yield Diagnostic(
            code="NK306",
            what=f"no engine can run this `{call.declaration.name}`",
            hint="gpsimd reaches no PSUM; power and rsqrt run on gpsimd; see "
            + call.declaration.page,
        )
    elif asked is not None and asked not in engines:
        yield Diagnostic(
            code="NK306",
            what=f"engine of `{call.declaration.name}`",
            got=asked.value,
            limit=" or ".join(e.value for e in engines),
            hint="leave `engine` out, or choose an allowed one",
        )
