"""Every access of a Program to a tensor, as columns of numbers.

Law: an access is (instruction, form, tensor, offset). A form is one part of one tensor operand of
one signature (`memory.parts`), so everything that does not depend on tensor and offset is worked
out once a form. Rows are in the order of `program.line`: loop bodies once, two cores between their
barriers. An operand that a known counter moves has the form of all that it passes over; any other
run-time offset makes it an access that may touch all it can reach (`may`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.enums import Memory
from nki_agent.memory.forms import Flags, FormTable, Ints
from nki_agent.program.line import OUTSIDE, Line, make_line
from nki_agent.program.records import Access, Dynamic, Init, Program, Tensor

NEVER = 2**31 - 1
"""A time after every instruction; a Program holds at most 4 million."""
CELLS_BUDGET = 2**30
"""Cells that the rules look at in all; more would take minutes."""


class Columns:
    """Accesses, forms and tensors of one Program."""

    def __init__(self, program: Program, chip: ChipSpec) -> None:
        """Lay the Program out; it has passed `program.validate.check_program`."""
        self.program = program
        self.chip = chip
        self.line = make_line(program)
        self.body = body = self.line.body
        self.cells_left = CELLS_BUDGET
        """Cells that `memory.written` may still look at."""
        table = FormTable(program.signatures, chip)
        signatures = np.array([i.signature for i in body], np.int64)
        counts = table.count[signatures] if len(body) else np.zeros(0, np.int64)
        total = int(counts.sum())
        self.time: Ints = np.repeat(np.arange(len(body)), counts)
        starts = np.cumsum(counts) - counts
        self.form: Ints = np.arange(total) + np.repeat(table.first[signatures] - starts, counts)
        self.signature_of: Ints = signatures
        if table.has_parts:
            operands = table.num_operands[signatures] if len(body) else counts
            begins = np.cumsum(operands) - operands
            place = np.repeat(begins, counts) + np.array(table.place, np.int64)[self.form]
            flat = int(operands.sum())
            self.tensor: Ints = _flatten([i.tensors for i in body], flat)[place]
            self.offset: Ints = _flatten([i.offsets for i in body], flat)[place]
        else:
            self.tensor = _flatten([i.tensors for i in body], total)
            self.offset = _flatten([i.offsets for i in body], total)
        if not program.is_flat or any(i.detail is not None for i in body):
            self._move(table, starts)
        self.forms = table.finish()

    def _move(self, table: FormTable, starts: Ints) -> None:
        """Give operands with run-time offsets the forms of what they can touch."""
        counters = _Counters(self.line)
        for time, instruction in enumerate(self.body):
            if instruction.detail is None:
                continue
            low = int(starts[time])
            high = int(starts[time + 1]) if time + 1 < len(starts) else len(self.form)
            for dynamic in instruction.detail.dynamic:
                tensor = self.program.tensors[instruction.tensors[dynamic.operand]]
                values = counters.find(dynamic, time)
                for row in range(low, high):
                    form = int(self.form[row])
                    if table.place[form] == dynamic.operand:
                        moved = table.move(form, int(self.offset[row]), tensor, dynamic, values)
                        self.form[row], self.offset[row] = moved

    @cached_property
    def reads(self) -> Flags:
        """Whether an access reads what was there."""
        return self.forms.reads[self.form]

    @cached_property
    def writes(self) -> Flags:
        """Whether an access writes, or may."""
        return self.forms.writes[self.form]

    @cached_property
    def may(self) -> Flags:
        """Whether only a run-time offset says which of these bytes an access touches."""
        return self.forms.may[self.form]

    @cached_property
    def span(self) -> Ints:
        """The innermost loop of each access, or `OUTSIDE`."""
        spans = self.line.span_of
        return np.full(len(self.time), OUTSIDE, np.int64) if spans is None else spans[self.time]

    @cached_property
    def core(self) -> Ints:
        """The core of each access."""
        cores = self.line.core_of
        return np.zeros(len(self.time), np.int64) if cores is None else cores[self.time]

    @cached_property
    def core_of_tensor(self) -> Ints:
        """The core that first touches each tensor; 0 for a tensor that none does."""
        cores = np.zeros(len(self.program.tensors), np.int64)
        cores[self.tensor[::-1]] = self.core[::-1]
        return cores

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
    def _use(self) -> tuple[Ints, Ints]:
        """First and last use; a loop that a tensor outlives counts as one long use."""
        first = np.full(len(self.program.tensors), -1, np.int64)
        last = first.copy()
        first[self.tensor[::-1]] = self.time[::-1]
        last[self.tensor] = self.time
        inside = np.flatnonzero(self.span != OUTSIDE)
        if not len(inside):
            return first, last
        spans, tensors = self.line.spans, self.program.tensors
        pairs = np.unique(self.tensor[inside] * len(spans) + self.span[inside])
        for tensor, number in zip(*(c.tolist() for c in divmod(pairs, len(spans))), strict=True):
            path = spans[number].path
            depth = len(tensors[tensor].scope)
            if depth < len(path):
                outer = spans[path[depth]]
                first[tensor] = min(first[tensor], outer.first)
                last[tensor] = max(last[tensor], outer.last)
        return first, last

    @property
    def first_use(self) -> Ints:
        """When each tensor's life begins; -1 if no instruction touches it."""
        return self._use[0]

    @property
    def last_use(self) -> Ints:
        """When each tensor's life ends; -1 if no instruction touches it."""
        return self._use[1]

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


class _Counters:
    """What the registers of offsets count through."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def find(self, dynamic: Dynamic, time: int) -> range | None:
        """The values of an operand's register at an instruction; None if they are not known."""
        register, line = dynamic.register, self._line
        if register is None:
            return None
        if register in line.constants:
            value = line.constants[register]
            return range(value, value + 1)
        number = OUTSIDE if line.span_of is None else int(line.span_of[time])
        for span in (line.spans[i] for i in (line.spans[number].path if number >= 0 else ())):
            if span.loop.index == register:
                return span.values
        return None


def _flatten(rows: Sequence[tuple[object, ...]], total: int) -> Ints:
    values = chain.from_iterable(rows)
    return np.fromiter(values, np.int64, total)


def describe_tensor(tensor: Tensor) -> str:
    """``tensor `name` [128, 512] float32``, for messages."""
    name = f"`{tensor.name}` " if tensor.name else ""
    return f"tensor {name}{list(tensor.shape)} {tensor.dtype.value} in {tensor.memory.value}"


def made_at(program: Program, tensor: Tensor) -> str:
    """The kernel line that made a tensor, for messages."""
    stack = program.stack(tensor.stack)
    return str(stack[-1]) if stack else "an argument"
