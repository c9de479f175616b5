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
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.declaration import (
    OFFSET_SUFFIX,
    Call,
    Kind,
)
from nki_agent.isa.enums import Memory
from nki_agent.isa.remembered import remember
from nki_agent.isa.rules import check_call
from nki_agent.isa.signature import Operand, Pattern, Signature
from nki_agent.isa.table import TABLE
from nki_agent.program.numbers import check_numbers
from nki_agent.program.records import (
    Dynamic,
    DynamicKind,
    Guard,
    Instruction,
    Loop,
    Node,
    Program,
    Scope,
    Tensor,
)
from nki_agent.program.structure import (
    INT_MAX,
    ForgedError,
    TooLargeError,
    partition_end,
    require_structure,
)


def check_program(program: Program, chip: ChipSpec) -> list[Diagnostic]:
    """Everything that is wrong with a Program as data, the most basic fault first."""
    try:
        require_structure(program)
    except ForgedError as error:
        return [
            Diagnostic(
                code="NK902",
                what=f"the traced Program is not one that an honest trace makes: {error}",
                hint="a kernel must only call `nki` functions",
            )
        ]
    except TooLargeError as error:
        return [
            Diagnostic(
                code="NK111",
                what=f"the traced Program is too large: {error}",
                hint="use larger tiles, fewer instructions and smaller host arrays",
            )
        ]
    findings = list(_check_tensors(program, chip)) or list(_check_signatures(program, chip))
    findings = findings or list(_check_bounds(program))
    return findings or [
        *check_numbers(program),
        *_check_dynamic(program),
        *_check_scopes(program),
    ]


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
        for finding in _check_signature(signature, chip):
            yield _at(finding, program.stack(stack))


@remember
def _check_signature(signature: Signature, chip: ChipSpec) -> tuple[Diagnostic, ...]:
    return tuple(check_call(Call(TABLE[signature.op], signature, chip)))


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
        rows = [_operand_rows(s) for s in program.signatures]
        count = np.array([len(r) for r in rows], np.int64)
        self.spans = (np.cumsum(count) - count, count)
        columns = np.array(list(chain.from_iterable(rows)), np.int64).reshape(-1, _ROW_LENGTH).T
        self.itemsize, self.low, self.high, self.memory, self.partition_end = columns


@remember
def _operand_rows(signature: Signature) -> tuple[tuple[int, int, int, int, int], ...]:
    """Item size, lowest byte, one past the highest, memory, end of partitions of each operand."""
    operands = [o for o in signature.operands if o.memory is not None]
    return tuple(
        (
            o.dtype.itemsize,
            low,
            high + o.dtype.itemsize,
            _MEMORY_NUMBER[o.memory],
            partition_end(o),
        )
        for o, (low, high) in zip(operands, _extents(signature), strict=True)
        if o.memory is not None
    )


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


_ROW_LENGTH = 5
_MEMORY_NUMBER = {memory: number for number, memory in enumerate(Memory)}


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


@remember
def written_positions(signature: Signature) -> tuple[int, ...]:
    """Positions, among the tensor operands, of those that the instruction writes."""
    roles = set(TABLE[signature.op].written_roles(signature))
    tensors = [o for o in signature.operands if not o.is_immediate]
    return tuple(i for i, o in enumerate(tensors) if o.role in roles)


@remember
def read_positions(signature: Signature) -> tuple[int, ...]:
    """Positions, among the tensor operands, of those whose old contents the instruction reads."""
    declaration = TABLE[signature.op]
    tensors = [o for o in signature.operands if not o.is_immediate]
    return tuple(
        i
        for i, o in enumerate(tensors)
        if declaration.parameter(o.role).kind not in (Kind.OUTPUT, Kind.OUTPUTS)
    )
