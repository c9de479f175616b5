"""What is the same in every repetition of an instruction: operator, attributes, operand patterns.

A Program stores each signature once; an instruction adds tensors, byte offsets and immediates.
Everything that `isa` has to check about an instruction depends on its signature alone, so the rules
run once a signature, however long the Program is.
"""

from __future__ import annotations

import math

import msgspec

from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, Memory

AttributeValue = bool | int | float | str | tuple[int | tuple[int, ...], ...] | None


class Pattern(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The addresses that one operand touches, relative to its byte offset.

    `partition` is (start, step, count), None in HBM. `free` holds (stride in bytes, count),
    outermost first; a stride may be 0 (broadcast) or negative.
    """

    partition: tuple[int, int, int] | None
    free: tuple[tuple[int, int], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Counts of every axis, the partition axis first where there is one."""
        counts = tuple([count for _, count in self.free])
        return counts if self.partition is None else (self.partition[2], *counts)

    @property
    def partitions(self) -> int:
        """Number of partitions touched; 1 in HBM."""
        return 1 if self.partition is None else self.partition[2]

    @property
    def free_elems(self) -> int:
        """Elements of one partition (of everything, in HBM)."""
        return math.prod([count for _, count in self.free])

    @property
    def extent(self) -> tuple[int, int]:
        """Lowest and highest byte offset of an element's first byte, relative to the offset."""
        low = high = 0
        for stride, count in self.free:
            reach = stride * (count - 1)
            if reach < 0:
                low += reach
            else:
                high += reach
        return low, high


class Operand(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One operand: a view of a tensor, or an immediate (then `memory` is None)."""

    role: str
    memory: Memory | None
    dtype: DType
    pattern: Pattern

    @property
    def is_immediate(self) -> bool:
        """Whether the instruction carries the value itself."""
        return self.memory is None

    @property
    def shape(self) -> tuple[int, ...]:
        """Counts of every axis of the view."""
        return self.pattern.shape

    @property
    def num_bytes(self) -> int:
        """Bytes that the view holds, counting repeated elements."""
        return self.pattern.partitions * self.pattern.free_elems * self.dtype.itemsize


SCALAR_PATTERN = Pattern(None, ())


class Condition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`const + sum(coefficient * axis index) >= 0`; negative axis numbers name enclosing loops."""

    const: int
    terms: tuple[tuple[int, int], ...]


class Signature(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An instruction without its tensors: see the module's docstring."""

    op: str
    attributes: tuple[tuple[str, AttributeValue], ...]
    engine: Engine | None
    operands: tuple[Operand, ...]
    mask: tuple[Condition, ...] = ()

    def find(self, role: str) -> Operand | None:
        """The operand with this role, if the instruction has it."""
        for operand in self.operands:
            if operand.role == role:
                return operand
        return None

    def get(self, role: str) -> Operand:
        """The operand with this role; KeyError if there is none."""
        operand = self.find(role)
        if operand is None:
            raise KeyError(role)
        return operand

    def attribute(self, name: str) -> AttributeValue:
        """The value of an attribute; None where the instruction does not set it."""
        for key, value in self.attributes:
            if key == name:
                return value
        return None
