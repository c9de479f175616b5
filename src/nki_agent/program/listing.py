"""A readable listing of a Program: one line an instruction, with the source line that made it."""

from __future__ import annotations

from collections.abc import Iterator

from nki_agent.base.diagnostic import clean
from nki_agent.isa.signature import Operand, Signature
from nki_agent.program.records import Instruction, Program, Tensor

NUMBER_WIDTH = 6


def list_program(program: Program, *, limit: int | None = None) -> Iterator[str]:
    """Lines of the listing; beyond `limit` instructions, one line counts the rest."""
    yield f"{clean(program.kernel)} for {program.target}: {_count(program)}"
    for argument in program.arguments:
        if argument.tensor is None:
            yield f"  argument {clean(argument.name)} = {argument.value!r}"
        else:
            tensor = program.tensors[argument.tensor]
            yield f"  argument {_tensor(tensor)} ({argument.access.value})"
    for result in program.results:
        yield f"  result {_tensor(program.tensors[result.tensor])}"
    for number, instruction in enumerate(program.instructions()):
        if number == limit:
            yield f"... {sum(1 for _ in program.instructions()) - number} more"
            return
        yield f"{number:>{NUMBER_WIDTH}}  {list_instruction(program, instruction)}"


def list_instruction(program: Program, instruction: Instruction) -> str:
    """`kernel.py:12  activation dst=e[128, 512] ... op=exp`."""
    signature = program.signatures[instruction.signature]
    frames = program.stack(instruction.stack)
    place = str(frames[-1]) if frames else "?"
    parts = [*_operands(program, instruction, signature), *_attributes(signature)]
    if signature.engine is not None:
        parts.append(f"engine={signature.engine.value}")
    return f"{place}  {signature.op} {' '.join(parts)}"


def _count(program: Program) -> str:
    number = sum(1 for _ in program.instructions())
    plural = "" if number == 1 else "s"
    return f"{number} instruction{plural}, {len(program.signatures)} distinct"


def _tensor(tensor: Tensor) -> str:
    shape = ", ".join(map(str, tensor.shape))
    return f"{clean(tensor.name)} [{shape}] {tensor.dtype.value} in {tensor.memory.value}"


def _operands(program: Program, instruction: Instruction, signature: Signature) -> Iterator[str]:
    tensors = iter(zip(instruction.tensors, instruction.offsets, strict=True))
    immediates = iter(instruction.immediates)
    for operand in signature.operands:
        if operand.is_immediate:
            yield f"{operand.role}={next(immediates)!r}"
            continue
        number, offset = next(tensors)
        yield f"{operand.role}={_view(program.tensors[number], operand, offset)}"


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
