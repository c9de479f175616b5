"""Checks every reference, bound and rule of a Program in the trusted process.

Law: nothing the tracing process claimed is believed. What no honest trace makes is `NK902`; what is
only too large is `NK111`; a broken rule of `isa` has the code that the tracer would have given.
Signatures are checked once each; offsets are checked as columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Stack
from nki_agent.base.hashes import hash_bytes
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.declaration import Call, Declaration, Kind
from nki_agent.isa.enums import Memory
from nki_agent.isa.rules import check_call
from nki_agent.isa.signature import SCALAR_PATTERN, Operand, Signature
from nki_agent.isa.table import TABLE
from nki_agent.program.records import Access, Dialect, Init, Instruction, Program, Tensor

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
    return findings or list(_check_bounds(program))


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
    one_core = launch.grid in ((), (1,)) and launch.cores == launch.ranks == 1
    _require(good=one_core, what="launch on other than one core")
    _require(good=len(program.bodies) == 1, what="one body is expected")
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
    _require(good=not tensor.blocks and not tensor.scope, what="loops of the other dialect")


def _require_signature(signature: Signature) -> None:
    declaration = TABLE.get(signature.op)
    _require(good=declaration is not None, what="unknown instruction")
    assert declaration is not None
    _require(good=not signature.mask, what="mask of the other dialect")
    names = [p.name for p in declaration.attribute_parameters]
    _require(good=[k for k, _ in signature.attributes] == names, what="attributes")
    for name, value in signature.attributes:
        _require(good=_is_kind(declaration, name, value), what=f"attribute `{name}`")
    roles = [o.role for o in signature.operands]
    order = [p.name for p in declaration.tensor_parameters]
    _require(good=roles == [n for n in order if n in roles], what="operands")
    needed = {p.name for p in declaration.tensor_parameters if not p.is_optional}
    _require(good=needed <= set(roles), what="operands")
    for operand in signature.operands:
        _require_operand(declaration, operand)


def _require_operand(declaration: Declaration, operand: Operand) -> None:
    kind = declaration.parameter(operand.role).kind
    if operand.is_immediate:
        good = kind in (Kind.SCALAR, Kind.VALUE) and operand.pattern == SCALAR_PATTERN
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
        case Kind.ALU_OP | Kind.ACTIVATION_OP:
            return isinstance(value, str)
        case Kind.ENUM:
            assert parameter.choices is not None
            return value in parameter.choices._value2member_map_
        case Kind.AXES | Kind.INTS:
            return isinstance(value, tuple) and all(isinstance(v, int) for v in value)
        case Kind.AFFINE_PATTERN:
            pairs = isinstance(value, tuple) and all(isinstance(v, tuple) for v in value)
            return pairs and all(len(v) == len(("step", "count")) for v in value)  # type: ignore[attr-defined]
        case Kind.OUTPUT | Kind.INPUT | Kind.UPDATE | Kind.SCALAR | Kind.VALUE | Kind.ENGINE:
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
    body = program.bodies[0]
    _require_at_most(len(body), INSTRUCTIONS_MAX, f"{len(body)} instructions")
    tensor_counts = [sum(not o.is_immediate for o in s.operands) for s in program.signatures]
    immediate_counts = [sum(o.is_immediate for o in s.operands) for s in program.signatures]
    num_signatures, num_stacks = len(program.signatures), len(program.stacks)
    num_tensors = len(program.tensors)
    used = bytearray(num_signatures)
    for node in body:
        good = isinstance(node, Instruction) and node.detail is None
        _require(good=good, what="loops of the other dialect")
        assert isinstance(node, Instruction)
        index = node.signature
        good = 0 <= index < num_signatures and 0 <= node.stack < num_stacks
        _require(good=good, what="signature of an instruction")
        used[index] = True
        good = len(node.tensors) == len(node.offsets) == tensor_counts[index]
        good = good and len(node.immediates) == immediate_counts[index]
        _require(good=good, what="operands of an instruction")
        for tensor in node.tensors:
            if not 0 <= tensor < num_tensors:
                raise _ForgedError("tensor of an instruction")
    _require(good=all(used), what="signature that no instruction has")


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
    for instruction in program.instructions():
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
    body = [n for n in program.bodies[0] if isinstance(n, Instruction)]
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
        extents = [o.pattern.extent for o in flat]
        self.itemsize = np.array([o.dtype.itemsize for o in flat], np.int64)
        self.low = np.array([low for low, _ in extents], np.int64)
        self.high = np.array([high for _, high in extents], np.int64) + self.itemsize
        self.memory = np.array([_MEMORY_NUMBER[o.memory] for o in flat if o.memory], np.int64)
        self.partition_end = np.array([_partition_end(o) for o in flat], np.int64)


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


def written_arguments(program: Program) -> set[int]:
    """Tensors of arguments that some instruction writes."""
    arguments = {a.tensor for a in program.arguments if a.tensor is not None}
    positions: dict[int, tuple[int, ...]] = {}
    written: set[int] = set()
    for node in program.instructions():
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
        i for i, o in enumerate(tensors) if declaration.parameter(o.role).kind is not Kind.OUTPUT
    )
