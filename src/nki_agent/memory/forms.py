"""The forms of accesses: what one part of one operand touches, apart from tensor and offset.

Law: a form holds all that rules ask of an access but where it lies, so a long Program of few kinds
of instructions costs little. Moved forms stand for accesses whose place is known at run time only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.declaration import Call
from nki_agent.isa.enums import Engine
from nki_agent.isa.remembered import remember
from nki_agent.isa.rules import engine_for
from nki_agent.isa.signature import Operand, Signature
from nki_agent.isa.table import TABLE
from nki_agent.memory.parts import MATMULS, parts_of
from nki_agent.program.records import Dynamic, Tensor
from nki_agent.program.registers import reachable, swept

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


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
    """Facts of every form, as columns."""

    operands: tuple[Operand, ...]
    signatures: Ints
    reads: Flags
    """Reads old contents; a matmul's `dst` is left out, its accumulation has its own rule."""
    writes: Flags
    on_tensor: Flags
    """Written by the Tensor Engine."""
    is_matmul: Flags
    """The `dst` of a matmul."""
    may: Flags
    """Touches some of its bytes, and only a run-time offset says which."""
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


@dataclass(frozen=True, slots=True)
class _Row:
    """One form, apart from which Program's signature it is of."""

    place: int
    """Which of its instruction's tensor operands it is of."""
    operand: Operand
    reads: bool
    writes: bool
    on_tensor: bool
    is_matmul: bool
    is_dma: bool
    reach: Reach
    end: int
    may: bool = False

    def moved_to(self, operand: Operand, *, may: bool) -> _Row:
        """The same for what the operand touches once it is moved."""
        return replace(self, operand=operand, may=may, **_find_reach(operand))


class _Reached(TypedDict):
    reach: Reach
    end: int


def _find_reach(operand: Operand) -> _Reached:
    pattern, itemsize = operand.pattern, operand.dtype.itemsize
    return {"reach": reach_of(pattern.free, itemsize), "end": pattern.extent[1] + itemsize}


@remember
def _rows_of(signature: Signature, chip: ChipSpec) -> tuple[_Row, ...]:
    declaration = TABLE[signature.op]
    engine = engine_for(Call(declaration, signature, chip))
    return tuple(
        _Row(
            place=place,
            operand=operand,
            reads=reads,
            writes=writes,
            on_tensor=writes and engine is Engine.TENSOR,
            is_matmul=writes and signature.op in MATMULS,
            is_dma=declaration.cycles is None,
            **_find_reach(operand),
        )
        for place, operand, reads, writes in parts_of(signature)
    )


class _Exact(NamedTuple):
    """A form at known places: its number, what to add to the offset, and what it reaches."""

    form: int
    delta: int
    low: int
    end: int


class _Passed(NamedTuple):
    """Forms of a moved operand: of all that it can touch, and of what it surely does."""

    anywhere: int
    exact: _Exact | None


class FormTable:
    """The forms of the signatures, then those of operands that move at run time."""

    def __init__(self, signatures: Sequence[Signature], chip: ChipSpec) -> None:
        """List the forms of every signature."""
        self._rows: list[_Row] = []
        self._signatures: list[int] = []
        self._moved: dict[tuple[object, ...], int] = {}
        self._passed: dict[tuple[object, ...], _Passed] = {}
        self.place: list[int] = []
        """Which of its instruction's tensor operands a form is of."""
        counts: list[int] = []
        for index, signature in enumerate(signatures):
            rows = _rows_of(signature, chip)
            counts.append(len(rows))
            self._rows += rows
            self._signatures += [index] * len(rows)
        self.place += [row.place for row in self._rows]
        operands = [sum(not o.is_immediate for o in s.operands) for s in signatures]
        self.count = np.array(counts, np.int64)
        self.num_operands = np.array(operands, np.int64)
        self.first = np.cumsum(self.count) - self.count
        """The first form of each signature; `count` follow."""
        self.has_parts = self.place != [p for n in operands for p in range(n)]

    def move(
        self, form: int, offset: int, tensor: Tensor, dynamic: Dynamic, values: range | None
    ) -> tuple[int, int]:
        """Form and offset of an access that a run-time value moves.

        A counter with known values writes all that it passes over, and reads what it does in the
        first iteration: what later ones read, earlier ones may have written. Anything else may
        touch all that the operand can reach.
        """
        size = tensor.partition_bytes
        key = (form, size, dynamic.kind, dynamic.stride_bytes, values)
        passed = self._passed.get(key)
        if passed is None:
            passed = self._passed[key] = self._make(form, tensor, dynamic, values)
        exact = passed.exact
        if exact is not None:
            start = offset + exact.delta
            if start + exact.low >= 0 and start + exact.end <= size:
                return exact.form, start
        return passed.anywhere, 0

    def _make(self, form: int, tensor: Tensor, dynamic: Dynamic, values: range | None) -> _Passed:
        row = self._rows[form]
        anywhere = self._find(form, reachable(row.operand, tensor), may=True)
        if values is None or (row.reads and row.writes):
            return _Passed(anywhere, None)
        found = swept(row.operand, 0, dynamic, values if row.writes else values[:1])
        if found is None:
            return _Passed(anywhere, None)
        low, high = found[0].pattern.extent
        exact = self._find(form, found[0], may=False)
        return _Passed(anywhere, _Exact(exact, found[1], low, high + row.operand.dtype.itemsize))

    def _find(self, form: int, operand: Operand, *, may: bool) -> int:
        key = (form, operand, may)
        found = self._moved.get(key)
        if found is None:
            found = self._moved[key] = len(self._rows)
            self.place.append(self.place[form])
            self._rows.append(self._rows[form].moved_to(operand, may=may))
            self._signatures.append(self._signatures[form])
        return found

    def finish(self) -> Forms:
        """The table as columns."""
        rows = self._rows
        operands = tuple(r.operand for r in rows)
        reaches = tuple([r.reach for r in rows])
        partition = [o.pattern.partition or (0, 1, 1) for o in operands]
        return Forms(
            operands=operands,
            signatures=np.array(self._signatures, np.int64),
            reads=np.array([r.reads for r in rows], np.bool_),
            writes=np.array([r.writes for r in rows], np.bool_),
            on_tensor=np.array([r.on_tensor for r in rows], np.bool_),
            is_matmul=np.array([r.is_matmul for r in rows], np.bool_),
            may=np.array([r.may for r in rows], np.bool_),
            is_dma=np.array([r.is_dma for r in rows], np.bool_),
            reaches=reaches,
            dense_bytes=np.array([0 if r.dims else r.run_bytes for r in reaches], np.int64),
            low=np.array([r.low for r in reaches], np.int64),
            end=np.array([r.end for r in rows], np.int64),
            partition_start=np.array([p[0] for p in partition], np.int64),
            partition_count=np.array([p[2] for p in partition], np.int64),
            partition_step=np.array([p[1] for p in partition], np.int64),
        )
