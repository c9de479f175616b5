"""Checks every reference, bound and rule of a Program in the trusted process.

Law: nothing the tracing process claimed is believed. What no honest trace makes is `NK902`; what is
only too large is `NK111`; a broken rule of `isa` has the code that the tracer would have given.
Signatures are checked once each; offsets are checked as columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Stack
from nki_agent.base.hashes import hash_bytes
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.declaration import (
    LIST_KINDS,
    OFFSET_PARAMETER,
    OFFSET_SUFFIX,
    Call,
    Declaration,
    Kind,
)
from nki_agent.isa.enums import Memory
from nki_agent.isa.rules import check_call
from nki_agent.isa.signature import SCALAR_PATTERN, Operand, Pattern, Signature
from nki_agent.isa.table import TABLE
from nki_agent.program.records import (
    Access,
    Detail,
    Dialect,
    Dynamic,
    DynamicKind,
    Guard,
    Init,
    Instruction,
    Loop,
    LoopKind,
    Node,
    Program,
    Scope,
    ScopeKind,
    Tensor,
)

INSTRUCTIONS_MAX = 4_000_000
TENSORS_MAX = 4_000_000
CONSTANT_BYTES_MAX = 64 * 2**20
TENSOR_BYTES_MAX = 2**36
RANK_MAX = 8
INT_MAX = 2**40


class _ForgedError(Exception):
    """A reference that no honest trace makes."""


class _TooLargeError(Exception):
    """More than a Program may hold, which an honest trace can ask for too."""


def check_program(program: Program, chip: ChipSpec) -> list[Diagnostic]:
    """Everything that is wrong with a Program as data, the most basic fault first."""
    try:
        _require_structure(program)
    except _ForgedError as error:
        return [
            Diagnostic(
                code="NK902",
                what=f"the traced Program is not one that an honest trace makes: {error}",
                hint="a kernel must only call `nki` functions",
            )
        ]
    except _TooLargeError as error:
        return [
            Diagnostic(
                code="NK111",
                what=f"the traced Program is too large: {error}",
                hint="use larger tiles, fewer instructions and smaller host arrays",
            )
        ]
    findings = list(_check_tensors(program, chip)) or list(_check_signatures(program, chip))
    findings = findings or list(_check_bounds(program))
    return findings or [*_check_dynamic(program), *_check_scopes(program)]


def _require(*, good: bool, what: str) -> None:
    if not good:
        raise _ForgedError(what)


def _require_at_most(number: int, limit: int, what: str) -> None:
    if number > limit:
        raise _TooLargeError(f"{what}, but the limit is {limit}")


def _require_structure(program: Program) -> None:
    _require_at_most(len(program.tensors), TENSORS_MAX, f"{len(program.tensors)} tensors")
    _require(good=program.dialect is Dialect.CURRENT, what="dialect")
    launch = program.launch
    known = launch.grid in ((), (1,), (2,)) and launch.cores in (1, 2) and launch.ranks == 1
    _require(good=known and launch.cores == (launch.grid or (1,))[0], what="launch")
    _require(good=len(program.bodies) == launch.cores, what="one body for each core")
    for stack in program.stacks:
        _require(good=all(0 <= s < len(program.sites) for s in stack), what="site of a stack")
    _require_constants(program)
    for tensor in program.tensors:
        _require_tensor(program, tensor)
    for signature in program.signatures:
        _require_signature(signature)
    _require_arguments(program)
    _require_instructions(program)


def _require_constants(program: Program) -> None:
    total = 0
    for constant in program.constants:
        size = constant.dtype.itemsize
        for count in constant.shape:
            _require(good=0 < count < INT_MAX, what="shape of a constant")
            size *= count
        total += len(constant.data)
        _require(good=size == len(constant.data), what="size of a constant")
        _require(good=constant.sha256 == hash_bytes(constant.data), what="hash of a constant")
    _require_at_most(total, CONSTANT_BYTES_MAX, f"constants of {total} bytes")


def _require_tensor(program: Program, tensor: Tensor) -> None:
    good = 1 + tensor.memory.is_on_chip <= len(tensor.shape) <= RANK_MAX
    good = good and all(n > 0 for n in tensor.shape)
    _require(good=good, what="shape of a tensor")
    size = tensor.partition_bytes * tensor.partitions
    _require_at_most(size, TENSOR_BYTES_MAX, f"a tensor of {size} bytes")
    _require(good=0 <= tensor.stack < len(program.stacks), what="stack of a tensor")
    _require(good=tensor.init is not Init.LAZY_ZERO, what="tensor that is zero from the start")
    is_constant = tensor.init is Init.CONSTANT
    _require(good=is_constant == (tensor.constant is not None), what="constant of a tensor")
    if tensor.constant is not None:
        _require(good=0 <= tensor.constant < len(program.constants), what="constant of a tensor")
        constant = program.constants[tensor.constant]
        good = constant.shape == tensor.shape and constant.dtype is tensor.dtype
        _require(good=good and not tensor.memory.is_on_chip, what="constant of a tensor")
    _require(good=not tensor.blocks, what="blocks of the other dialect")


def _require_signature(signature: Signature) -> None:
    declaration = TABLE.get(signature.op)
    _require(good=declaration is not None, what="unknown instruction")
    assert declaration is not None
    _require(good=not signature.mask, what="mask of the other dialect")
    names = [p.name for p in declaration.attribute_parameters]
    _require(good=[k for k, _ in signature.attributes] == names, what="attributes")
    for name, value in signature.attributes:
        _require(good=_is_kind(declaration, name, value), what=f"attribute `{name}`")
    try:
        found = [declaration.parameter(o.role) for o in signature.operands]
    except KeyError as error:
        raise _ForgedError("operands") from error
    order = [p.name for p in declaration.tensor_parameters]
    plain = [p for p in found if p is not OFFSET_PARAMETER]
    good = found[: len(plain)] == plain
    places = [order.index(p.name) if p.name in order else -1 for p in plain]
    single = [p for p in plain if p.kind not in LIST_KINDS]
    good = good and places == sorted(places) and -1 not in places
    good = good and len({p.name for p in single}) == len(single)
    needed = {
        p.name
        for p in declaration.tensor_parameters
        if not p.is_optional and p.kind is not Kind.WORD
    }
    _require(good=good and needed <= {p.name for p in found}, what="operands")
    for operand in signature.operands:
        _require_operand(declaration, operand)


def _require_operand(declaration: Declaration, operand: Operand) -> None:
    kind = declaration.parameter(operand.role).kind
    if operand.is_immediate:
        good = kind in (Kind.SCALAR, Kind.VALUE, Kind.WORD) and operand.pattern == SCALAR_PATTERN
        _require(good=good, what="immediate operand")
        return
    pattern = operand.pattern
    assert operand.memory is not None
    good = kind is not Kind.VALUE and len(pattern.free) <= RANK_MAX
    good = good and operand.memory.is_on_chip == (pattern.partition is not None)
    _require(good=good, what="operand pattern")
    counts = [count for _, count in pattern.free]
    if pattern.partition is not None:
        start, step, count = pattern.partition
        counts.append(count)
        _require(good=0 <= start < INT_MAX and 0 < step < INT_MAX, what="operand partitions")
    good = all(0 < n < INT_MAX for n in counts)
    # Bounded, so that the columns of `_check_bounds` cannot overflow.
    low, high = pattern.extent
    good = good and low > -INT_MAX and high < INT_MAX and _partition_end(operand) < INT_MAX
    _require(good=good, what="operand pattern")


def _is_kind(declaration: Declaration, name: str, value: object) -> bool:
    parameter = declaration.parameter(name)
    if value == parameter.default or (value is None and parameter.default is None):
        return True
    match parameter.kind:
        case Kind.FLAG:
            return isinstance(value, bool)
        case Kind.INT:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Kind.ALU_OP | Kind.ACTIVATION_OP | Kind.TEXT:
            return isinstance(value, str)
        case Kind.ENUM:
            assert parameter.choices is not None
            return value in parameter.choices._value2member_map_
        case Kind.AXES | Kind.INTS:
            return isinstance(value, tuple) and all(isinstance(v, int) for v in value)
        case Kind.GROUPS:
            return isinstance(value, tuple) and all(
                isinstance(v, tuple) and all(type(n) is int for n in v) for v in value
            )
        case Kind.AFFINE_PATTERN:
            pairs = isinstance(value, tuple) and all(isinstance(v, tuple) for v in value)
            return pairs and all(len(v) == len(("step", "count")) for v in value)  # type: ignore[attr-defined]
        case (
            Kind.OUTPUT
            | Kind.INPUT
            | Kind.INPUTS
            | Kind.OUTPUTS
            | Kind.UPDATE
            | Kind.SCALAR
            | Kind.VALUE
            | Kind.WORD
            | Kind.REGISTER
            | Kind.ENGINE
        ):
            return False


def _require_arguments(program: Program) -> None:
    num_tensors = len(program.tensors)
    kept = set()
    for argument in program.arguments:
        if argument.tensor is None:
            continue
        _require(good=0 <= argument.tensor < num_tensors, what="tensor of an argument")
        tensor = program.tensors[argument.tensor]
        good = tensor.init is Init.ARGUMENT and not tensor.memory.is_on_chip
        _require(good=good, what="tensor of an argument")
        if argument.access is Access.READ:
            kept.add(argument.tensor)
    named = [a.tensor for a in program.arguments if a.tensor is not None]
    _require(good=len(named) == len(set(named)), what="tensor of two arguments")
    arguments = sum(t.init is Init.ARGUMENT for t in program.tensors)
    _require(good=arguments == len(named), what="tensors that are no argument")
    for result in program.results:
        _require(good=0 <= result.tensor < num_tensors, what="result")
        tensor = program.tensors[result.tensor]
        is_new = tensor.init is not Init.ARGUMENT and tensor.memory is Memory.SHARED_HBM
        is_update = tensor.init is Init.ARGUMENT and result.tensor not in kept
        _require(good=is_new or is_update, what="result that the kernel did not make")
        elems = int(np.prod([float(n) for n in tensor.shape]))
        good = all(0 < n < INT_MAX for n in result.shape) and not tensor.memory.is_on_chip
        good = good and int(np.prod([float(n) for n in result.shape])) == elems
        _require(good=good, what="result")


def _require_instructions(program: Program) -> None:
    count = sum(1 for _ in program.all_instructions())
    _require_at_most(count, INSTRUCTIONS_MAX, f"{count} instructions")
    counts = _OperandCounts(program)
    loops: set[int] = set()
    for body in program.bodies:
        _require_body(program, counts, body, (), loops)
    used = {node.signature for node in program.all_instructions()}
    _require(good=len(used) == len(program.signatures), what="signature that no instruction has")


class _OperandCounts:
    """How many tensors, immediates and registers each signature binds."""

    def __init__(self, program: Program) -> None:
        signatures = program.signatures
        self.tensors = [sum(not o.is_immediate for o in s.operands) for s in signatures]
        self.immediates = [sum(o.is_immediate for o in s.operands) for s in signatures]
        self.registers = [_num_registers(s) for s in signatures]


def _num_registers(signature: Signature) -> int:
    roles = {o.role for o in signature.operands}
    parameters = TABLE[signature.op].register_parameters
    return sum(1 for p in parameters if p.kind is Kind.REGISTER or p.name not in roles)


def _require_body(
    program: Program,
    counts: _OperandCounts,
    body: tuple[Node, ...],
    path: tuple[int, ...],
    loops: set[int],
) -> None:
    """Check a body's references; `path` holds the numbers of the loops around it."""
    for node in body:
        match node:
            case Instruction():
                _require_instruction(program, counts, node)
            case Loop():
                _require_loop(program, node)
                _require(good=node.number not in loops, what="number of a loop")
                loops.add(node.number)
                _require_body(program, counts, node.body, (*path, node.number), loops)
            case Scope():
                good = node.kind is ScopeKind.NO_REORDER
                _require(good=good, what="scope of the other dialect")
                _require_body(program, counts, node.body, path, loops)
            case Guard():
                raise _ForgedError("guard of the other dialect")


def _require_loop(program: Program, loop: Loop) -> None:
    good = loop.kind in (LoopKind.FORI, LoopKind.WHILE) and 0 < loop.step < INT_MAX
    good = good and isinstance(loop.lower, int) and -INT_MAX < loop.lower < INT_MAX
    is_while = loop.kind is LoopKind.WHILE
    good = good and (loop.upper is None) == is_while
    good = good and (loop.test is not None) == is_while == (loop.next is not None)
    good = good and (is_while or isinstance(loop.upper, int))
    good = good and 0 <= loop.stack < len(program.stacks)
    named = (loop.index, loop.lower_register, loop.upper_register, loop.test, loop.next)
    limit = len(program.registers)
    good = good and all(r is None or 0 <= r < limit for r in named)
    _require(good=good, what="loop")


def _require_instruction(program: Program, counts: _OperandCounts, node: Instruction) -> None:
    index = node.signature
    good = 0 <= index < len(program.signatures) and 0 <= node.stack < len(program.stacks)
    if not good:
        raise _ForgedError("signature of an instruction")
    if (
        len(node.tensors) != counts.tensors[index]
        or len(node.offsets) != counts.tensors[index]
        or len(node.immediates) != counts.immediates[index]
    ):
        raise _ForgedError("operands of an instruction")
    limit = len(program.tensors)
    for tensor in node.tensors:
        if not 0 <= tensor < limit:
            raise _ForgedError("tensor of an instruction")
    if node.detail is not None or counts.registers[index]:
        _require_detail(program, counts, node)


def _require_detail(program: Program, counts: _OperandCounts, node: Instruction) -> None:
    detail = node.detail or Detail()
    limit = len(program.registers)
    good = len(detail.registers) == counts.registers[node.signature]
    good = good and all(0 <= r < limit for r in detail.registers) and not detail.blocks
    good = good and all(n >= 0 for n in detail.after)
    _require(good=good, what="details of an instruction")
    operands = [o for o in program.signatures[node.signature].operands if not o.is_immediate]
    roles = {o.role for o in operands}
    moved = [d.operand for d in detail.dynamic]
    _require(good=len(set(moved)) == len(moved), what="run-time offsets")
    for dynamic in detail.dynamic:
        good = 0 <= dynamic.operand < len(operands)
        _require(good=good and abs(dynamic.stride_bytes) < INT_MAX, what="run-time offset")
        role = f"{operands[dynamic.operand].role}{OFFSET_SUFFIX}"
        has_tensor = role in roles
        good = has_tensor == (dynamic.register is None)
        good = good and (dynamic.register is None or 0 <= dynamic.register < limit)
        _require(good=good, what="run-time offset")
    offsets = sum(r.endswith(OFFSET_SUFFIX) for r in roles)
    tensors = sum(d.register is None for d in detail.dynamic)
    _require(good=offsets == tensors, what="run-time offsets")


def _check_tensors(program: Program, chip: ChipSpec) -> Iterator[Diagnostic]:
    for tensor in program.tensors:
        if tensor.memory.is_on_chip and tensor.shape[0] > chip.partitions:
            yield Diagnostic(
                code="NK201",
                what=f"partition dimension of tensor `{tensor.name}` with shape"
                f" {list(tensor.shape)}",
                got=str(tensor.shape[0]),
                limit=str(chip.partitions),
                where=program.stack(tensor.stack),
                hint="the first dimension is the partition axis; split it into tiles of at most"
                f" {chip.partitions} rows",
            )
            return


def _check_signatures(program: Program, chip: ChipSpec) -> Iterator[Diagnostic]:
    first_stack: dict[int, int] = {}
    for instruction in program.all_instructions():
        first_stack.setdefault(instruction.signature, instruction.stack)
    for index, stack in first_stack.items():
        signature = program.signatures[index]
        for finding in check_call(Call(TABLE[signature.op], signature, chip)):
            yield _at(finding, program.stack(stack))


def _at(finding: Diagnostic, where: Stack) -> Diagnostic:
    return Diagnostic(
        code=finding.code,
        what=finding.what,
        severity=finding.severity,
        where=where,
        got=finding.got,
        limit=finding.limit,
        hint=finding.hint,
    )


def _check_bounds(program: Program) -> Iterator[Diagnostic]:
    """Every operand lies inside its tensor, aligned, in the memory its signature names."""
    body = list(program.all_instructions())
    if not body:
        return
    forms = _OperandColumns(program)
    tensors = _TensorColumns(program.tensors)
    first, count = forms.spans
    signatures = np.fromiter((i.signature for i in body), np.int64, len(body))
    per_instruction = count[signatures]
    total = int(per_instruction.sum())
    owner = np.repeat(np.arange(len(body)), per_instruction)
    starts = np.cumsum(per_instruction) - per_instruction
    form = first[signatures][owner] + np.arange(total) - starts[owner]
    tensor = np.fromiter(chain.from_iterable(i.tensors for i in body), np.int64, total)
    try:
        offset = np.fromiter(chain.from_iterable(i.offsets for i in body), np.int64, total)
    except (TypeError, OverflowError):
        yield Diagnostic(code="NK902", what="an offset of the traced Program is no plain number")
        return
    bad = forms.memory[form] != tensors.memory[tensor]
    bad |= (offset < 0) | (offset >= INT_MAX)
    bad |= (offset + forms.low[form] < 0) | (offset + forms.high[form] > tensors.size[tensor])
    bad |= forms.partition_end[form] > tensors.partitions[tensor]
    bad |= (offset % forms.itemsize[form]) != 0
    for position in np.flatnonzero(bad)[:1]:
        node = body[int(owner[position])]
        operand = int(position - starts[owner[position]])
        yield _out_of_bounds(program, node, operand)


class _OperandColumns:
    """Facts of every tensor operand of every signature, as columns."""

    def __init__(self, program: Program) -> None:
        operands = [[o for o in s.operands if not o.is_immediate] for s in program.signatures]
        flat = list(chain.from_iterable(operands))
        count = np.array([len(o) for o in operands], np.int64)
        self.spans = (np.cumsum(count) - count, count)
        extents = [extent for s in program.signatures for extent in _extents(s)]
        self.itemsize = np.array([o.dtype.itemsize for o in flat], np.int64)
        self.low = np.array([low for low, _ in extents], np.int64)
        self.high = np.array([high for _, high in extents], np.int64) + self.itemsize
        self.memory = np.array([_MEMORY_NUMBER[o.memory] for o in flat if o.memory], np.int64)
        self.partition_end = np.array([_partition_end(o) for o in flat], np.int64)


def _extents(signature: Signature) -> Iterator[tuple[int, int]]:
    """Lowest and highest byte of each tensor operand.

    What a list of indices names is left out: rows in HBM, elements of a partition on chip.
    """
    for operand in signature.operands:
        if operand.is_immediate:
            continue
        offset = signature.find(f"{operand.role}{OFFSET_SUFFIX}")
        pattern = operand.pattern
        if offset is not None and offset.pattern.partitions > 1:
            is_hbm = pattern.partition is None
            pattern = Pattern(pattern.partition, pattern.free[1:] if is_hbm else ())
        yield pattern.extent


class _TensorColumns:
    """Facts of every tensor, as columns."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.size = np.array([t.partition_bytes for t in tensors], np.int64)
        self.partitions = np.array([t.partitions for t in tensors], np.int64)
        self.memory = np.array([_MEMORY_NUMBER[t.memory] for t in tensors], np.int64)


_MEMORY_NUMBER = {memory: number for number, memory in enumerate(Memory)}


def _partition_end(operand: Operand) -> int:
    if operand.pattern.partition is None:
        return 1
    start, step, count = operand.pattern.partition
    return start + step * (count - 1) + 1


def _out_of_bounds(program: Program, node: Instruction, operand_index: int) -> Diagnostic:
    signature = program.signatures[node.signature]
    operand = [o for o in signature.operands if not o.is_immediate][operand_index]
    tensor = program.tensors[node.tensors[operand_index]]
    offset = node.offsets[operand_index]
    return Diagnostic(
        code="NK202",
        what=f"`{operand.role}` of `{signature.op}` reaches outside of tensor `{tensor.name}`"
        f" {list(tensor.shape)} in {tensor.memory.value}",
        got=f"view {list(operand.shape)} at byte {offset}",
        limit=f"{tensor.partitions} partitions of {tensor.partition_bytes} bytes",
        where=program.stack(node.stack),
        hint="clip the tail tile: `size = min(tile, total - start)`",
    )


def _check_dynamic(program: Program) -> Iterator[Diagnostic]:
    """Run-time offsets are where an instruction can take them, with indices of the right shape."""
    for node in program.all_instructions():
        for dynamic in node.detail.dynamic if node.detail is not None else ():
            found = _dynamic_fault(program, node, dynamic)
            if found is not None:
                yield msgspec.structs.replace(found, where=program.stack(node.stack))
                return


def _dynamic_fault(program: Program, node: Instruction, dynamic: Dynamic) -> Diagnostic | None:
    signature = program.signatures[node.signature]
    operands = [o for o in signature.operands if not o.is_immediate]
    operand = operands[dynamic.operand]
    offset = signature.find(f"{operand.role}{OFFSET_SUFFIX}")
    what = f"run-time offset of `{operand.role}` of `{signature.op}`"
    is_dma = TABLE[signature.op].cycles is None
    good, limit = _dynamic_rule(operand, offset, dynamic.kind, is_dma=is_dma)
    if good:
        return None
    got = "a register" if offset is None else str(list(offset.shape))
    hint = "see `.ap(scalar_offset=, vector_offset=)` and `.indirect`"
    return Diagnostic(code="NK308", what=what, got=got, limit=limit, hint=hint)


def _dynamic_rule(
    operand: Operand, offset: Operand | None, kind: DynamicKind, *, is_dma: bool
) -> tuple[bool, str]:
    """Whether an operand may move in this way, and how it may."""
    match kind:
        case DynamicKind.SCALAR:
            good = offset is None or offset.pattern.partitions * offset.pattern.free_elems == 1
            return good, "a register, or a tile of one element"
        case DynamicKind.VECTOR:
            rows = operand.pattern.free[0][1] if operand.pattern.free else 0
            good = is_dma and offset is not None and operand.pattern.partition is None
            good = good and offset is not None and offset.shape == (rows, 1)
            return good, f"a DMA on HBM with indices of shape [{rows}, 1]"
        case DynamicKind.INDIRECT:
            rows = operand.pattern.partitions
            good = not is_dma and offset is not None
            good = good and offset is not None and offset.shape[0] == rows
            return good, f"an engine's operand with offsets in {rows} partitions"


def _check_scopes(program: Program) -> Iterator[Diagnostic]:
    """A tensor made in a run-time loop is used in that loop only."""
    for body in program.bodies:
        yield from _scope_faults(program, body, ())


def _scope_faults(
    program: Program, body: tuple[Node, ...], path: tuple[int, ...]
) -> Iterator[Diagnostic]:
    for node in body:
        match node:
            case Instruction():
                for number in node.tensors:
                    scope = program.tensors[number].scope
                    if scope and path[: len(scope)] != scope:
                        yield Diagnostic(
                            code="NK216",
                            what=f"tensor `{program.tensors[number].name}` is used outside of the"
                            " run-time loop that made it",
                            where=program.stack(node.stack),
                            hint="allocate it before the loop",
                        )
                        return
            case Loop():
                yield from _scope_faults(program, node.body, (*path, node.number))
            case Scope() | Guard():
                yield from _scope_faults(program, node.body, path)


def written_arguments(program: Program) -> set[int]:
    """Tensors of arguments that some instruction writes."""
    arguments = {a.tensor for a in program.arguments if a.tensor is not None}
    positions: dict[int, tuple[int, ...]] = {}
    written: set[int] = set()
    for node in program.all_instructions():
        places = positions.get(node.signature)
        if places is None:
            places = positions[node.signature] = written_positions(
                program.signatures[node.signature]
            )
        for place in places:
            if node.tensors[place] in arguments:
                written.add(node.tensors[place])
    return written


def written_positions(signature: Signature) -> tuple[int, ...]:
    """Positions, among the tensor operands, of those that the instruction writes."""
    roles = set(TABLE[signature.op].written_roles(signature))
    tensors = [o for o in signature.operands if not o.is_immediate]
    return tuple(i for i, o in enumerate(tensors) if o.role in roles)


def read_positions(signature: Signature) -> tuple[int, ...]:
    """Positions, among the tensor operands, of those whose old contents the instruction reads."""
    declaration = TABLE[signature.op]
    tensors = [o for o in signature.operands if not o.is_immediate]
    return tuple(
        i
        for i, o in enumerate(tensors)
        if declaration.parameter(o.role).kind not in (Kind.OUTPUT, Kind.OUTPUTS)
    )
