"""When each tensor is used and as what: first and last instruction, dtypes, whether it is read.

Worked out in columns over all operands of a Program, so that it costs little for each instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from nki_agent.isa.dtype import DType
from nki_agent.isa.remembered import remember
from nki_agent.isa.signature import Operand, Signature
from nki_agent.program.records import Init, Instruction, Program
from nki_agent.program.validate import read_positions

_DTYPES = tuple(DType)
_NUMBER = {dtype: number for number, dtype in enumerate(_DTYPES)}
_UNEVEN = 1 << len(_DTYPES)
"""Marks a view whose strides its elements do not divide."""
NEVER = -1


@dataclass(frozen=True, slots=True)
class Usage:
    """Facts of every tensor, by id."""

    first: list[int]
    """Index of the first instruction that touches it; NEVER if none does."""
    last: list[int]
    dtype: list[DType | None]
    """The one dtype it is seen with; None if there are several, uneven strides, or tfloat32."""
    is_read: list[bool]


def find_usage(program: Program, body: list[Instruction]) -> Usage:
    """Go over the operands of all instructions once."""
    rows = [_marks_of(s) for s in program.signatures]
    count = np.array([len(r) for r in rows], np.int64)
    start = np.cumsum(count) - count
    columns = np.array(list(chain.from_iterable(rows)), np.int64).reshape(-1, 2)
    marks, reads = columns[:, 0], columns[:, 1].astype(np.bool_)

    signature_ids = np.fromiter((i.signature for i in body), np.int64, len(body))
    sizes = count[signature_ids]
    total = int(sizes.sum())
    owner = np.repeat(np.arange(len(body)), sizes)
    form = np.arange(total) + np.repeat(start[signature_ids] - (np.cumsum(sizes) - sizes), sizes)
    tensor = np.fromiter(chain.from_iterable(i.tensors for i in body), np.int64, total)

    num_tensors = len(program.tensors)
    first = np.full(num_tensors, NEVER, np.int64)
    last = np.full(num_tensors, NEVER, np.int64)
    # Where an index is repeated, the value that comes last is kept.
    last[tensor] = owner
    first[tensor[::-1]] = owner[::-1]
    seen = _declared(program)
    np.bitwise_or.at(seen, tensor, marks[form])
    is_read = np.zeros(num_tensors, np.bool_)
    is_read[tensor[reads[form]]] = True
    return Usage(
        first.tolist(),
        last.tolist(),
        [_BY_MARK.get(mark) for mark in seen.tolist()],
        is_read.tolist(),
    )


@remember
def _marks_of(signature: Signature) -> tuple[tuple[int, bool], ...]:
    """What each tensor operand is seen as, and whether its old contents are read."""
    read = set(read_positions(signature))
    operands = [o for o in signature.operands if not o.is_immediate]
    return tuple((_mark(o), place in read) for place, o in enumerate(operands))


def _mark(operand: Operand) -> int:
    size = operand.dtype.itemsize
    is_even = all(stride % size == 0 for stride, _ in operand.pattern.free)
    return (1 << _NUMBER[operand.dtype]) | (0 if is_even else _UNEVEN)


def _declared(program: Program) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """What goes in or comes out has the declared dtype, and so has what no instruction touches."""
    seen = np.zeros(len(program.tensors), np.int64)
    outside = {result.tensor for result in program.results}
    for index, tensor in enumerate(program.tensors):
        if index in outside or tensor.init in (Init.ARGUMENT, Init.CONSTANT):
            seen[index] = 1 << _NUMBER[tensor.dtype]
    return seen


# tfloat32 is stored with bits that engines do not read but that copies keep.
_BY_MARK = {1 << n: dtype for dtype, n in _NUMBER.items() if dtype is not DType.TFLOAT32}
