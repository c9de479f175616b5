"""Every access of a Program to a tensor, as columns of numbers.

Law: an access is (instruction, form, tensor, offset). A form is one tensor operand of one
signature, so everything that does not depend on tensor and offset is worked out once a form. Rows
are in program order.
Not covered: bodies with loops, guards or scopes, which only the older dialect keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.declaration import Call
from nki_agent.isa.enums import Engine, Memory
from nki_agent.isa.rules import engine_for
from nki_agent.isa.signature import Operand, Signature
from nki_agent.isa.table import TABLE
from nki_agent.program.records import Access, Init, Instruction, Node, Program, Tensor
from nki_agent.program.validate import read_positions, written_positions

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NEVER = 2**31 - 1
"""A time after every instruction; a Program holds at most 4 million."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The bytes that a form touches in one partition: `dims` of runs of `run_bytes`, from `low` on.

    `dims` holds (stride in bytes, count) with positive strides, the longest first; repeated axes
    are gone and axes that follow one another without a gap are merged, so equal sets mostly have
    equal forms.
    """

    low: int
    run_bytes: int
    dims: tuple[tuple[int, int], ...]


def reach_of(dims: Sequence[tuple[int, int]], itemsize: int) -> Reach:
    """The bytes touched by elements of `itemsize` at every combination of strides."""
    low = sum(min(0, stride * (count - 1)) for stride, count in dims)
    sizes = sorted((abs(s), n) for s, n in dims if s != 0 and n > 1)
    run = itemsize
    rest: list[tuple[int, int]] = []
    for stride, count in sizes:
        if not rest and stride == run:
            run *= count
        elif rest and stride == rest[-1][0] * rest[-1][1]:
            rest[-1] = (rest[-1][0], rest[-1][1] * count)
        else:
            rest.append((stride, count))
    return Reach(low, run, tuple(reversed(rest)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """Facts of every tensor operand of every signature, as columns."""

    operands: tuple[Operand, ...]
    signatures: Ints
    reads: Flags
    """Reads old contents; a matmul's `dst` is left out, its accumulation has its own rule."""
    writes: Flags
    on_tensor: Flags
    """Written by the Tensor Engine."""
    is_matmul: Flags
    """The `dst` of a `nc_matmul`."""
    is_dma: Flags
    reaches: tuple[Reach, ...]
    dense_bytes: Ints
    """Bytes of the one run that a partition's accesses make; 0 where there are several."""
    low: Ints
    end: Ints
    """First and one past the last byte that is touched, relative to the offset."""
    partition_start: Ints
    partition_count: Ints
    partition_step: Ints


class Columns:
    """Accesses, forms and tensors of one Program."""

    def __init__(self, program: Program, chip: ChipSpec) -> None:
        """Lay the Program out; it has passed `program.validate.check_program`."""
        self.program = program
        self.chip = chip
        self.body = flat_body(program)
        spans, self.forms = _make_forms(program, chip)
        body = self.body
        signatures = np.array([i.signature for i in body], np.int64)
        first, count = spans
        counts = count[signatures] if body else np.zeros(0, np.int64)
        total = int(counts.sum())
        self.time: Ints = np.repeat(np.arange(len(body)), counts)
        starts = np.cumsum(counts) - counts
        self.form: Ints = np.arange(total) + np.repeat(first[signatures] - starts, counts)
        self.tensor: Ints = _flatten([i.tensors for i in body], total)
        self.offset: Ints = _flatten([i.offsets for i in body], total)
        self.signature_of: Ints = signatures

    @cached_property
    def reads(self) -> Flags:
        """Whether an access reads what was there."""
        return self.forms.reads[self.form]

    @cached_property
    def writes(self) -> Flags:
        """Whether an access writes."""
        return self.forms.writes[self.form]

    @cached_property
    def _kinds(self) -> tuple[list[Tensor], Ints]:
        """One tensor of each kind, and the kind of every tensor; loops make many alike."""
        numbers: dict[object, int] = {}
        examples: list[Tensor] = []
        kinds: list[int] = []
        for tensor in self.program.tensors:
            key = (tensor.memory, tensor.shape, tensor.dtype, tensor.init)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(examples)
                examples.append(tensor)
            kinds.append(number)
        return examples, np.array(kinds, np.int64)

    def _each(self, fact: Callable[[Tensor], int]) -> Ints:
        examples, kinds = self._kinds
        return np.array([fact(t) for t in examples], np.int64)[kinds]

    @cached_property
    def partition_bytes(self) -> Ints:
        """Bytes of one partition of every tensor; of all of it, in HBM."""
        return self._each(lambda t: t.partition_bytes)

    @cached_property
    def partitions(self) -> Ints:
        """Partitions of every tensor; 1 in HBM."""
        return self._each(lambda t: t.partitions)

    @cached_property
    def first_use(self) -> Ints:
        """The first instruction that touches each tensor; -1 if none does."""
        first = np.full(len(self.program.tensors), -1, np.int64)
        first[self.tensor[::-1]] = self.time[::-1]
        return first

    @cached_property
    def last_use(self) -> Ints:
        """The last instruction that touches each tensor; -1 if none does."""
        last = np.full(len(self.program.tensors), -1, np.int64)
        last[self.tensor] = self.time
        return last

    @cached_property
    def covers(self) -> Flags:
        """Whether an access touches every byte of its tensor."""
        forms, form, tensor = self.forms, self.form, self.tensor
        whole: Flags = forms.dense_bytes[form] == self.partition_bytes[tensor]
        whole &= (self.offset + forms.low[form]) == 0
        whole &= forms.partition_count[form] == self.partitions[tensor]
        return whole

    @cached_property
    def unwritten_at_start(self) -> Flags:
        """Tensors that hold nothing of meaning before their first write."""
        flags = self._each(lambda t: t.init is Init.POISON).astype(np.bool_)
        for argument in self.program.arguments:
            if argument.tensor is not None and argument.access is Access.WRITE:
                flags[argument.tensor] = True
        return flags

    def memory_is(self, memory: Memory) -> Flags:
        """Which tensors live in this memory."""
        return self._each(lambda t: t.memory is memory).astype(np.bool_)

    def first_cover(self, chosen: Flags) -> Ints:
        """When the first of the chosen accesses covers all of each tensor; NEVER if none does."""
        rows = np.flatnonzero(chosen & self.covers)[::-1]
        first = np.full(len(self.program.tensors), NEVER, np.int64)
        first[self.tensor[rows]] = self.time[rows]
        return first


def flat_body(program: Program) -> tuple[Instruction, ...]:
    """The instructions of a body without loops; an error of ours for any other node."""
    body = program.bodies[0]
    if set(map(type, body)) - {Instruction}:
        kinds = sorted({type(n).__name__ for n in body if not isinstance(n, Instruction)})
        raise NotImplementedError(f"memory expands no {' or '.join(kinds)} nodes")
    return _instructions(body)


def _instructions(body: tuple[Node, ...]) -> tuple[Instruction, ...]:
    return body  # type: ignore[return-value]


def _flatten(rows: Sequence[tuple[object, ...]], total: int) -> Ints:
    values = chain.from_iterable(rows)
    return np.fromiter(values, np.int64, total)


def _make_forms(program: Program, chip: ChipSpec) -> tuple[tuple[Ints, Ints], Forms]:
    per_signature = [[o for o in s.operands if not o.is_immediate] for s in program.signatures]
    count = np.array([len(o) for o in per_signature], np.int64)
    spans = (np.cumsum(count) - count, count)
    operands = tuple(chain.from_iterable(per_signature))
    reaches = tuple(reach_of(o.pattern.free, o.dtype.itemsize) for o in operands)
    flags = [_flags(s, chip) for s in program.signatures]
    partition = [o.pattern.partition or (0, 1, 1) for o in operands]

    def flag(name: str) -> Flags:
        return np.array(list(chain.from_iterable(f[name] for f in flags)), np.bool_)

    low = np.array([r.low for r in reaches], np.int64)
    high = [o.pattern.extent[1] + o.dtype.itemsize for o in operands]
    return spans, Forms(
        operands=operands,
        signatures=np.repeat(np.arange(len(per_signature)), count),
        reads=flag("reads"),
        writes=flag("writes"),
        on_tensor=flag("on_tensor"),
        is_matmul=flag("is_matmul"),
        is_dma=flag("is_dma"),
        reaches=reaches,
        dense_bytes=np.array([0 if r.dims else r.run_bytes for r in reaches], np.int64),
        low=low,
        end=np.array(high, np.int64),
        partition_start=np.array([p[0] for p in partition], np.int64),
        partition_step=np.array([p[1] for p in partition], np.int64),
        partition_count=np.array([p[2] for p in partition], np.int64),
    )


def _flags(signature: Signature, chip: ChipSpec) -> dict[str, list[bool]]:
    declaration = TABLE[signature.op]
    engine = engine_for(Call(declaration, signature, chip))
    num = sum(not o.is_immediate for o in signature.operands)
    written, read = set(written_positions(signature)), set(read_positions(signature))
    is_matmul = signature.op == "nc_matmul"
    if is_matmul:
        read -= written
    return {
        "reads": [i in read for i in range(num)],
        "writes": [i in written for i in range(num)],
        "on_tensor": [i in written and engine is Engine.TENSOR for i in range(num)],
        "is_matmul": [i in written and is_matmul for i in range(num)],
        "is_dma": [declaration.cycles is None] * num,
    }


def describe_tensor(tensor: Tensor) -> str:
    """``tensor `name` [128, 512] float32``, for messages."""
    name = f"`{tensor.name}` " if tensor.name else ""
    return f"tensor {name}{list(tensor.shape)} {tensor.dtype.value} in {tensor.memory.value}"


def made_at(program: Program, tensor: Tensor) -> str:
    """The kernel line that made a tensor, for messages."""
    stack = program.stack(tensor.stack)
    return str(stack[-1]) if stack else "an argument"
