"""Whether a Program is one that an honest trace makes: references, sizes, nesting, arguments.

Law: nothing the tracing process claimed is believed; the first lie ends the check.
"""

from __future__ import annotations

import math

from nki_agent.base.hashes import hash_bytes
from nki_agent.isa.declaration import (
    LIST_KINDS,
    OFFSET_PARAMETER,
    OFFSET_SUFFIX,
    Declaration,
    Kind,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.isa.remembered import remember
from nki_agent.isa.signature import SCALAR_PATTERN, Operand, Signature
from nki_agent.isa.table import TABLE
from nki_agent.program.records import (
    Access,
    Detail,
    Dialect,
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
AXES_MAX = 64
"""Axes of a result or a constant: as many as NumPy has, so that a product of them ends soon."""
INT_MAX = 2**40


class ForgedError(Exception):
    """A reference that no honest trace makes."""


class TooLargeError(Exception):
    """More than a Program may hold, which an honest trace can ask for too."""


def require_structure(program: Program) -> None:
    """Raises `ForgedError` or `TooLargeError` at the first thing that no honest trace makes."""
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


def _require(*, good: bool, what: str) -> None:
    if not good:
        raise ForgedError(what)


def _require_at_most(number: int, limit: int, what: str) -> None:
    if number > limit:
        raise TooLargeError(f"{what}, but the limit is {limit}")


def _require_constants(program: Program) -> None:
    total = 0
    for constant in program.constants:
        _require(good=len(constant.shape) <= AXES_MAX, what="shape of a constant")
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


@remember
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
        raise ForgedError("operands") from error
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
        dtypes = (DType.INT32,) if kind is Kind.WORD else (DType.INT32, DType.FLOAT32)
        good = kind in (Kind.SCALAR, Kind.VALUE, Kind.WORD) and operand.dtype in dtypes
        good = good and operand.pattern == SCALAR_PATTERN
        _require(good=good, what="immediate operand")
        return
    pattern = operand.pattern
    assert operand.memory is not None
    good = kind not in (Kind.VALUE, Kind.WORD) and len(pattern.free) <= RANK_MAX
    good = good and operand.memory.is_on_chip == (pattern.partition is not None)
    _require(good=good, what="operand pattern")
    counts = [count for _, count in pattern.free]
    if pattern.partition is not None:
        start, step, count = pattern.partition
        counts.append(count)
        _require(good=0 <= start < INT_MAX and 0 < step < INT_MAX, what="operand partitions")
    good = all(0 < n < INT_MAX for n in counts)
    # Bounded, so that the columns of `validate` cannot overflow.
    low, high = pattern.extent
    good = good and low > -INT_MAX and high < INT_MAX and partition_end(operand) < INT_MAX
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
    names = {a.name for a in program.arguments}
    _require(good=len(names) == len(program.arguments), what="name of two arguments")
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
        good = len(result.shape) <= AXES_MAX and not tensor.memory.is_on_chip
        good = good and all(0 < n < INT_MAX for n in result.shape)
        good = good and math.prod(result.shape) == math.prod(tensor.shape)
        _require(good=good, what="result")


def _require_instructions(program: Program) -> None:
    count = sum(1 for _ in program.all_instructions())
    _require_at_most(count, INSTRUCTIONS_MAX, f"{count} instructions")
    counts = _OperandCounts(program)
    loops = _Loops()
    for body in program.bodies:
        _require_body(program, counts, body, loops)
    used = {node.signature for node in program.all_instructions()}
    _require(good=len(used) == len(program.signatures), what="signature that no instruction has")


class _Loops:
    """How many loops there were so far, over all cores."""

    made = 0


class _OperandCounts:
    """How many tensors and registers each signature binds, and numbers of which types."""

    def __init__(self, program: Program) -> None:
        found = [_count_operands(s) for s in program.signatures]
        self.tensors = [tensors for tensors, _, _ in found]
        self.immediates = [immediates for _, immediates, _ in found]
        self.registers = [registers for _, _, registers in found]


@remember
def _count_operands(signature: Signature) -> tuple[int, tuple[type[int | float], ...], int]:
    immediates = [o for o in signature.operands if o.is_immediate]
    types = tuple(int if o.dtype.is_integer else float for o in immediates)
    return len(signature.operands) - len(immediates), types, _num_registers(signature)


def _num_registers(signature: Signature) -> int:
    roles = {o.role for o in signature.operands}
    parameters = TABLE[signature.op].register_parameters
    return sum(1 for p in parameters if p.kind is Kind.REGISTER or p.name not in roles)


def _require_body(
    program: Program,
    counts: _OperandCounts,
    body: tuple[Node, ...],
    loops: _Loops,
) -> None:
    """Check a body's references, and that loops are numbered as they come."""
    for node in body:
        match node:
            case Instruction():
                _require_instruction(program, counts, node)
            case Loop():
                _require_loop(program, node)
                _require(good=node.number == loops.made, what="number of a loop")
                loops.made += 1
                _require_body(program, counts, node.body, loops)
            case Scope():
                good = node.kind is ScopeKind.NO_REORDER
                _require(good=good, what="scope of the other dialect")
                _require_body(program, counts, node.body, loops)
            case Guard():
                raise ForgedError("guard of the other dialect")


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
        raise ForgedError("signature of an instruction")
    if (
        len(node.tensors) != counts.tensors[index]
        or len(node.offsets) != counts.tensors[index]
        or tuple(map(type, node.immediates)) != counts.immediates[index]
    ):
        raise ForgedError("operands of an instruction")
    limit = len(program.tensors)
    for tensor in node.tensors:
        if not 0 <= tensor < limit:
            raise ForgedError("tensor of an instruction")
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


def partition_end(operand: Operand) -> int:
    """One past the last partition that an operand reaches, from its first."""
    if operand.pattern.partition is None:
        return 1
    start, step, count = operand.pattern.partition
    return start + step * (count - 1) + 1
