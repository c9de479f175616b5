"""NK214: a matmul accumulates onto PSUM that no matmul has started.

Law, for each byte, with "matmul" for any write of the Tensor Engine:

- `accumulate=True` needs an earlier matmul; from NeuronCore-v4 on, any earlier write.
- `accumulate=None` overwrites at a location's first write. Where a memset of 0 came before, both
  readings (overwrite, or add to zero) agree, and the architecture guide shows it; any other earlier
  contents without a matmul are undefined before NeuronCore-v4.
- `accumulate=False` is always good. A location that a matmul has started stays started when another
  engine writes it.
- A run-time loop holds one instruction for all iterations, so where `accumulate=None` is the first
  write of a location in a loop that the tensor outlives, "overwrite first, then add" is no one
  flag; the documentation gives no answer, so it is refused.

What only run-time values decide (offsets, whether a loop runs) counts as started.
Source: nki.isa.nc_matmul, "Accumulation mode" and its note.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.memory.columns import Columns, describe_tensor
from nki_agent.memory.forms import Flags
from nki_agent.memory.written import Cells, History, histories
from nki_agent.program.line import OUTSIDE, Span
from nki_agent.program.records import Init, Instruction, Tensor

ANY_WRITE_STARTS = 4
"""First generation that accumulates onto what any engine wrote."""


@dataclass(frozen=True, slots=True)
class _Kinds:
    """What the accesses of a Program mean for accumulation, as flags of its rows."""

    always_adds: Flags
    infers: Flags
    starts: Flags
    """Writes of the Tensor Engine."""
    sets_zero: Flags
    other: Flags
    """Writes of other engines, but for fills with zero."""
    repeats: Flags
    """Inferring matmuls in a loop that their tensor outlives."""


def check(columns: Columns) -> Iterator[Diagnostic]:
    """A finding for every matmul that adds to what no matmul started, or may."""
    if not columns.forms.is_matmul.any():
        return
    kinds = _kinds(columns)
    tensor, time = columns.tensor, columns.time
    started = columns.first_cover(kinds.starts)[tensor] < time
    has_other = np.zeros(len(columns.program.tensors), np.bool_)
    has_other[tensor[kinds.other]] = True
    old_chip = columns.chip.generation < ANY_WRITE_STARTS
    doubtful = kinds.always_adds & ~started
    if old_chip:
        doubtful |= kinds.infers & ~started & has_other[tensor]
    doubtful |= kinds.repeats & ~started
    if not doubtful.any():
        return
    is_doubtful = np.zeros(len(columns.program.tensors), np.bool_)
    is_doubtful[tensor[doubtful]] = True
    rows = np.flatnonzero(is_doubtful[tensor] & columns.writes)
    known: dict[bytes, list[int]] = {}
    for history in histories(columns, rows):
        # A fill with zero has the same form as any other fill.
        key = history.key + kinds.other[history.rows].tobytes()
        key += kinds.repeats[history.rows].tobytes()
        bad = known.get(key)
        if bad is None:
            bad = known[key] = _bad_matmuls(columns, kinds, history)
        for position in bad:
            yield _finding(columns, kinds, int(history.rows[position]))


def _kinds(columns: Columns) -> _Kinds:
    forms, program = columns.forms, columns.program
    modes = [s.attribute("accumulate") for s in program.signatures]
    of_form = [modes[int(i)] for i in forms.signatures]
    is_true = np.array([m is True for m in of_form], np.bool_)
    is_none = np.array([m is None for m in of_form], np.bool_)
    matmul = forms.is_matmul[columns.form]
    starts = forms.on_tensor[columns.form]
    fills = np.array([s.op == "memset" for s in program.signatures], np.bool_)
    fill = np.flatnonzero(fills[columns.signature_of])
    is_zero = np.zeros(len(columns.body), np.bool_)
    is_zero[fill] = [columns.body[i].immediates == (0,) for i in fill.tolist()]
    sets_zero = is_zero[columns.time] & columns.writes
    infers = matmul & is_none[columns.form]
    return _Kinds(
        always_adds=matmul & is_true[columns.form],
        infers=infers,
        repeats=_repeated_matmuls(columns, infers),
        starts=starts,
        sets_zero=sets_zero,
        other=columns.writes & ~starts & ~sets_zero,
    )


def _repeated_matmuls(columns: Columns, infers: Flags) -> Flags:
    """Inferring matmuls that a loop may repeat onto a tensor that it did not make."""
    found = np.zeros(len(infers), np.bool_)
    spans, tensors = columns.line.spans, columns.program.tensors
    for row in np.flatnonzero(infers & (columns.span != OUTSIDE)).tolist():
        depth = len(tensors[int(columns.tensor[row])].scope)
        path = spans[int(columns.span[row])].path[depth:]
        found[row] = any(_repeats(spans[i]) for i in path)
    return found


def _repeats(span: Span) -> bool:
    return span.values is None or len(span.values) > 1


def _bad_matmuls(columns: Columns, kinds: _Kinds, history: History) -> list[int]:
    rows, ranks = history.rows, history.ranks
    if columns.program.tensors[history.tensor].init is not Init.POISON:
        return []
    cells = Cells(columns, history)
    old_chip = columns.chip.generation < ANY_WRITE_STARTS
    by_matmul = cells.first_times(kinds.starts[rows], ranks)
    by_any = cells.first_times(np.ones(len(rows), np.bool_), ranks)
    adds = kinds.always_adds[rows]
    bad = np.zeros(len(rows), np.bool_)
    bad[adds] = cells.extremes(by_matmul if old_chip else by_any, adds)[1] >= ranks[adds]
    for i in np.flatnonzero(kinds.repeats[rows]).tolist():
        # Where another matmul was first, before the loop or in its body, this one always adds.
        bad[i] = bool((by_matmul[cells.touched(i)] == ranks[i]).any())
    if old_chip and kinds.other[rows].any():
        by_other = cells.first_times(kinds.other[rows], ranks)
        for i in np.flatnonzero(kinds.infers[rows]).tolist():
            touched = cells.touched(i)
            is_first = by_matmul[touched] >= ranks[i]
            bad[i] |= bool((is_first & (by_other[touched] < ranks[i])).any())
    return [int(i) for i in np.flatnonzero(bad)]


def _finding(columns: Columns, kinds: _Kinds, row: int) -> Diagnostic:
    program = columns.program
    tensor = program.tensors[int(columns.tensor[row])]
    instruction = columns.body[int(columns.time[row])]
    adds = bool(kinds.always_adds[row])
    op = program.signatures[instruction.signature].op
    if kinds.repeats[row]:
        return _repeated(columns, tensor, instruction)
    what = "accumulates (`accumulate=True`) onto" if adds else "may accumulate onto contents of"
    why = "that no matmul has started" if adds else "that another engine wrote before any matmul"
    return Diagnostic(
        code="NK214",
        what=f"`{op}` {what} {describe_tensor(tensor)} {why}; the result is undefined",
        where=program.stack(instruction.stack),
        hint="leave `accumulate` out and don't fill the PSUM tile, or pass `accumulate=(k > 0)`:"
        " the first matmul of a group must overwrite",
    )


def _repeated(columns: Columns, tensor: Tensor, instruction: Instruction) -> Diagnostic:
    op = columns.program.signatures[instruction.signature].op
    return Diagnostic(
        code="NK214",
        what=f"`{op}` in a run-time loop leaves `accumulate` open for {describe_tensor(tensor)},"
        " which was made before the loop: one instruction cannot overwrite in the first iteration"
        " and add in the later ones",
        where=columns.program.stack(instruction.stack),
        hint="allocate the PSUM tile in the loop body, or start it before the loop with"
        " `accumulate=False` and pass `accumulate=True` inside",
    )
