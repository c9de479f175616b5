"""What is known about registers and loops before a Program runs.

Law: a register has a constant only if one instruction writes it, a `register_move` of a number
outside of every loop. A loop's values are known only if both bounds are. What is not known here may
be anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from nki_agent.isa.declaration import Kind
from nki_agent.isa.dtype import DType
from nki_agent.isa.signature import Operand, Pattern, Signature
from nki_agent.isa.table import TABLE
from nki_agent.program.records import (
    Affine,
    Dynamic,
    DynamicKind,
    Guard,
    Instruction,
    Loop,
    LoopKind,
    Node,
    Program,
    Scope,
    Tensor,
)

Constants = Mapping[int, int]
"""Values of the registers that have one value throughout."""


WORD_BITS = 32
_HALF = 1 << (WORD_BITS - 1)
_MASK = (1 << WORD_BITS) - 1


def wrap(value: int) -> int:
    """The signed number that the low 32 bits stand for: what a register keeps."""
    return ((value + _HALF) & _MASK) - _HALF


def register_places(signature: Signature) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Places of the registers that an instruction reads, and writes; offsets are not among them."""
    roles = {o.role for o in signature.operands}
    parameters = [
        p
        for p in TABLE[signature.op].register_parameters
        if p.kind is Kind.REGISTER or p.name not in roles
    ]
    is_dst = [p.kind is Kind.REGISTER and p.name == "dst" for p in parameters]
    reads = tuple(place for place, dst in enumerate(is_dst) if not dst)
    return reads, tuple(place for place, dst in enumerate(is_dst) if dst)


def find_constants(program: Program) -> dict[int, int]:
    """Registers whose value is known."""
    places = [register_places(s)[1] for s in program.signatures]
    writers = Counter[int]()
    values: dict[int, int] = {}
    for body in program.bodies:
        for node, in_loop in _writers(body, in_loop=False):
            if isinstance(node, Loop):
                writers[node.index] += 1
                continue
            signature = program.signatures[node.signature]
            registers = () if node.detail is None else node.detail.registers
            for register in (registers[place] for place in places[node.signature]):
                writers[register] += 1
                if signature.op == "register_move" and node.immediates and not in_loop:
                    values[register] = wrap(int(node.immediates[0]))
    return {register: value for register, value in values.items() if writers[register] == 1}


def _writers(body: tuple[Node, ...], *, in_loop: bool) -> Iterator[tuple[Instruction | Loop, bool]]:
    for node in body:
        match node:
            case Instruction():
                if node.detail is not None and node.detail.registers:
                    yield node, in_loop
            case Loop():
                yield node, in_loop
                yield from _writers(node.body, in_loop=True)
            case Scope() | Guard():
                yield from _writers(node.body, in_loop=in_loop)


def loop_values(loop: Loop, constants: Constants) -> range | None:
    """The values that a loop counts through; None if they are not known."""
    if loop.kind is not LoopKind.FORI:
        return None
    lower: int | Affine | None = loop.lower
    upper = loop.upper
    if loop.lower_register is not None:
        lower = constants.get(loop.lower_register)
    if loop.upper_register is not None:
        upper = constants.get(loop.upper_register)
    if not isinstance(lower, int) or not isinstance(upper, int):
        return None
    return range(lower, upper, loop.step)


def swept(
    operand: Operand, offset: int, dynamic: Dynamic, values: range
) -> tuple[Operand, int] | None:
    """The view that an operand passes over while its register counts; None if it is no counter's.

    The other axes stay as they are; the new one comes first.
    """
    if dynamic.kind is not DynamicKind.SCALAR or not len(values):
        return None
    free = ((dynamic.stride_bytes * values.step, len(values)), *operand.pattern.free)
    pattern = Pattern(operand.pattern.partition, free)
    moved = msgspec.structs.replace(operand, pattern=pattern)
    return moved, offset + dynamic.stride_bytes * values.start


def reachable(operand: Operand, tensor: Tensor) -> Operand:
    """All that an operand can touch at some offset, seen from byte 0 of its partitions."""
    size, itemsize = tensor.partition_bytes, operand.dtype.itemsize
    dtype = operand.dtype if size % itemsize == 0 else DType.UINT8
    pattern = Pattern(operand.pattern.partition, ((dtype.itemsize, size // dtype.itemsize),))
    return msgspec.structs.replace(operand, dtype=dtype, pattern=pattern)
