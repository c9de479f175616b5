"""Memory that two cores see: which bytes each has touched since the last barrier on a tensor.

Law: two accesses of different cores to one byte, at least one of them a write, need a barrier on
that tensor between them (NK402). A barrier orders nothing but the tensor that it names, since it
stops one engine only and the rest follows from the data. A search of `program.overlap` that grows
too long counts as an overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.program.overlap import Form, is_overlapping
from nki_agent.program.records import Program


class Watch:
    """What one core's instructions with run-time offsets report to; `log` is set for each run."""

    __slots__ = ("core", "log", "tensors")

    def __init__(self, core: int, tensors: frozenset[int]) -> None:
        """`tensors` are those that matter."""
        self.core = core
        self.tensors = tensors
        self.log: SharedLog | None = None


class Access(NamedTuple):
    """Bytes of a shared tensor that an instruction reads or writes."""

    tensor: int
    is_write: bool
    form: Form
    offset: int
    stack: int


_Key = tuple[bool, Form, int]
_Touched = dict[_Key, int]
"""The call stack of the first access of each kind."""


class SharedLog:
    """Accesses of both cores in the epochs that are open."""

    def __init__(self, program: Program) -> None:
        """Nothing is touched."""
        self._program = program
        self._touched: tuple[dict[int, _Touched], ...] = ({}, {})
        self._done: tuple[set[int], ...] = (set(), set())

    def add(self, core: int, access: Access) -> None:
        """Record one access."""
        tensor, is_write, form, offset, stack = access
        touched = self._touched[core].setdefault(tensor, {})
        touched.setdefault((is_write, form, offset), stack)

    def add_all(self, core: int, accesses: tuple[Access, ...]) -> None:
        """Record the accesses of a block; one that was recorded since a barrier costs nothing."""
        if id(accesses) in self._done[core]:
            return
        self._done[core].add(id(accesses))
        for access in accesses:
            self.add(core, access)

    def close(self, tensor: int) -> Iterator[tuple[int, Diagnostic]]:
        """End the tensor's epoch; yields what needed a barrier, with the stack of its line."""
        first, second = (touched.pop(tensor, {}) for touched in self._touched)
        for done in self._done:
            done.clear()
        for is_write, other_writes in ((True, True), (True, False), (False, True)):
            yield from self._conflicts(
                tensor,
                {k: v for k, v in first.items() if k[0] is is_write},
                {k: v for k, v in second.items() if k[0] is other_writes},
            )

    def close_all(self) -> Iterator[tuple[int, Diagnostic]]:
        """End every epoch."""
        for tensor in sorted(self._touched[0].keys() | self._touched[1].keys()):
            yield from self.close(tensor)

    def _conflicts(
        self, tensor: int, first: _Touched, second: _Touched
    ) -> Iterator[tuple[int, Diagnostic]]:
        found = _find_overlap(list(first), list(second))
        if found is None:
            return
        mine, other = found
        yield self._finding(tensor, (mine[0], first[mine]), (other[0], second[other]))

    def _finding(
        self, tensor: int, first: tuple[bool, int], second: tuple[bool, int]
    ) -> tuple[int, Diagnostic]:
        """At the read if there is one; it names the line of the other access."""
        stacks, writes = (first[1], second[1]), (first[0], second[0])
        core = 0 if not writes[0] else 1
        verb = "writes" if writes[core] else "reads"
        stack = self._program.stack(stacks[1 - core])
        place = f" at {stack[-1]}" if stack else ""
        name = self._program.tensors[tensor].name
        return stacks[core], Diagnostic(
            code="NK402",
            what=f"core {core} {verb} bytes of `{name}` that core {1 - core} writes{place},"
            " with no barrier between",
            hint="call `nisa.core_barrier(data=..., cores=(0, 1))` with this tensor on both cores"
            " in between; a barrier orders no other tensor",
        )


def _find_overlap(first: list[_Key], second: list[_Key]) -> tuple[_Key, _Key] | None:
    """The first pair of accesses that share a byte."""
    if not first or not second:
        return None
    low, high = _ends(second)
    for mine in first:
        start = mine[2] + mine[1].low
        near = np.flatnonzero((low < start + mine[1].extent) & (high > start))
        for index in near.tolist():
            other = second[index]
            if is_overlapping(mine[1], other[1], first_offset=mine[2], second_offset=other[2]):
                return mine, other
    return None


def _ends(keys: Iterable[_Key]) -> tuple[np.ndarray, np.ndarray]:
    low = np.array([offset + form.low for _, form, offset in keys], np.int64)
    extent = np.array([form.extent for _, form, _ in keys], np.int64)
    return low, low + extent
