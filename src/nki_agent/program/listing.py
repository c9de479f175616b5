"""A readable listing of a Program: one line an instruction, loop or scope, with its source line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import msgspec

from nki_agent.base.diagnostic import Stack, bounded_stack, clean
from nki_agent.isa.signature import Operand, Signature
from nki_agent.program.records import (
    Affine,
    Detail,
    Dynamic,
    Guard,
    Instruction,
    Loop,
    LoopKind,
    Node,
    Program,
    Scope,
    Tensor,
)

NUMBER_WIDTH = 6
INDENT = "  "


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One instruction, loop or scope of a Program.

    Instructions of a core are numbered from 0, loop bodies once; loops and scopes have no number.
    """

    core: int
    depth: int
    number: int | None
    where: Stack
    text: str


def list_program(program: Program, *, limit: int | None = None) -> Iterator[str]:
    """Lines of the listing; beyond `limit` instructions, one line counts the rest."""
    yield f"{clean(program.kernel)} for {clean(program.target)}: {_count(program)}"
    for argument in program.arguments:
        if argument.tensor is None:
            yield f"  argument {clean(argument.name)} = {clean(repr(argument.value))}"
        else:
            tensor = program.tensors[argument.tensor]
            yield f"  argument {_tensor(tensor)} ({argument.access.value})"
    for result in program.results:
        yield f"  result {_tensor(program.tensors[result.tensor])}"
    core, shown = None if len(program.bodies) > 1 else 0, 0
    for row in list_rows(program):
        if shown == limit:
            yield f"... {program.num_instructions - shown} more"
            return
        if row.core != core:
            core = row.core
            yield f"core {core}"
        shown += row.number is not None
        number = "" if row.number is None else str(row.number)
        place = str(row.where[-1]) if row.where else "-"
        yield f"{number:>{NUMBER_WIDTH}}  {place}  {INDENT * row.depth}{row.text}"


def list_rows(program: Program, *, limit: int | None = None) -> Iterator[Row]:
    """What a Program does, core by core, at most `limit` rows."""
    rows = (
        row
        for core, body in enumerate(program.bodies)
        for row in _rows(program, body, core, 0, count())
    )
    return islice(rows, limit)


def _rows(
    program: Program, body: tuple[Node, ...], core: int, depth: int, numbers: Iterator[int]
) -> Iterator[Row]:
    for node in body:
        if isinstance(node, Instruction):
            where, text = bounded_stack(program.stack(node.stack)), write_instruction(program, node)
            yield Row(core=core, depth=depth, number=next(numbers), where=where, text=text)
            continue
        where, text = _head(program, node)
        yield Row(core=core, depth=depth, number=None, where=where, text=text)
        yield from _rows(program, node.body, core, depth + 1, numbers)


def _head(program: Program, node: Loop | Scope | Guard) -> tuple[Stack, str]:
    match node:
        case Loop():
            return bounded_stack(program.stack(node.stack)), _loop(program, node)
        case Scope():
            return (), f"{node.kind.value}:"
        case Guard():
            return (), f"where {len(node.conditions)} conditions hold:"


def _loop(program: Program, loop: Loop) -> str:
    index = _register(program, loop.index)
    if loop.kind is LoopKind.WHILE:
        return f"while {index} is not 0:"
    lower = _bound(program, loop.lower, loop.lower_register)
    upper = _bound(program, loop.upper, loop.upper_register)
    step = "" if loop.step == 1 else f" step {loop.step}"
    return f"{loop.kind.value} {index} from {lower} to {upper}{step}:"


def _register(program: Program, number: int) -> str:
    """Its name, and its number in the Program, since names may be equal."""
    return f"{clean(program.registers[number].name)}{number}"


def _bound(program: Program, value: int | Affine | None, register: int | None) -> str:
    return str(value) if register is None else _register(program, register)


def write_instruction(program: Program, instruction: Instruction) -> str:
    """`activation dst=e[128, 512] ... op=exp`."""
    signature = program.signatures[instruction.signature]
    parts = [*_operands(program, instruction, signature), *_attributes(signature)]
    if signature.engine is not None:
        parts.append(f"engine={signature.engine.value}")
    detail = instruction.detail or Detail()
    parts += [_register(program, register) for register in detail.registers]
    if detail.after:
        parts.append(f"after {', '.join(map(str, detail.after))}")
    return f"{signature.op} {' '.join(parts)}".rstrip()


def _count(program: Program) -> str:
    number = program.num_instructions
    plural = "" if number == 1 else "s"
    return f"{number} instruction{plural}, {len(program.signatures)} distinct"


def _tensor(tensor: Tensor) -> str:
    shape = ", ".join(map(str, tensor.shape))
    return f"{clean(tensor.name)} [{shape}] {tensor.dtype.value} in {tensor.memory.value}"


def _operands(program: Program, instruction: Instruction, signature: Signature) -> Iterator[str]:
    tensors = iter(zip(instruction.tensors, instruction.offsets, strict=True))
    immediates = iter(instruction.immediates)
    moves = {d.operand: d for d in (instruction.detail or Detail()).dynamic}
    position = 0
    for operand in signature.operands:
        if operand.is_immediate:
            yield f"{operand.role}={next(immediates)!r}"
            continue
        number, offset = next(tensors)
        view = _view(program.tensors[number], operand, offset)
        yield f"{operand.role}={view}{_move(program, moves.get(position))}"
        position += 1


def _move(program: Program, dynamic: Dynamic | None) -> str:
    """What moves a view at run time: ` at register1 x 256 bytes`."""
    if dynamic is None:
        return ""
    source = f"the {dynamic.kind.value} indices below"
    if dynamic.register is not None:
        source = _register(program, dynamic.register)
    return f" at {source} x {dynamic.stride_bytes} bytes"


def _view(tensor: Tensor, operand: Operand, offset: object) -> str:
    shape = ", ".join(map(str, operand.shape))
    start = operand.pattern.partition[0] if operand.pattern.partition else 0
    places = [f"partition {start}"] if start else []
    if offset != 0:
        places.append(f"byte {offset}")
    dtype = "" if operand.dtype is tensor.dtype else f" as {operand.dtype.value}"
    where = f"+{' '.join(places)}" if places else ""
    return f"{clean(tensor.name)}[{shape}]{where}{dtype}"


def _attributes(signature: Signature) -> Iterator[str]:
    for name, value in signature.attributes:
        if value not in (None, False, ()):
            yield f"{name}={clean(value)}"
