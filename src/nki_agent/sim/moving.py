"""An instruction that is bound at each run: its offsets, its registers, or its PSUM are not known.

Operands with `scalar` offsets are bound anew where they lie. Those with a list of rows or elements
are gathered into a temporary in front of the instruction and scattered behind it, so a handler sees
plain tensors only. Rows that are left out keep their old contents in `dst`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Stack
from nki_agent.base.errors import KernelError
from nki_agent.sim.offsets import Array, ScalarMove, Staged
from nki_agent.sim.plan import Bound

Offsets = tuple[int, ...]
Binder = Callable[[Offsets], Bound]
BOUNDS_MAX = 100_000
"""Bound forms kept of all instructions of a core."""


class BoundForms:
    """What instructions were bound to before, by their offsets."""

    def __init__(self) -> None:
        """None yet."""
        self._known: dict[tuple[int, Offsets], Bound] = {}
        self._count = 0

    def remember(self, bind: Binder) -> Binder:
        """The same binder, looking here first."""
        known, number = self._known, self._count
        self._count += 1

        def find(offsets: Offsets) -> Bound:
            bound = known.get((number, offsets))
            if bound is None:
                if len(known) >= BOUNDS_MAX:
                    known.clear()
                bound = known[number, offsets] = bind(offsets)
            return bound

        return find


class Moving:
    """See the module's docstring; `moved` and `skipped` count rows of one run."""

    def __init__(self, bind: Binder, offsets: Offsets, *, where: Stack) -> None:
        """`offsets` are those of the operands that the handler sees, before any moves."""
        self.scalars: list[tuple[int, ScalarMove]] = []
        """With the operand's index in `offsets`."""
        self.staged: list[Staged] = []
        self.dst: Callable[[Offsets], Array] | None = None
        """The elements of `dst` as bits; None where no rows may be left out."""
        self.axes: tuple[int, ...] | None = None
        """The order of a source's axes in `dst`, where it is another one."""
        self.on_access: Callable[[Offsets], None] | None = None
        """Told of each run whose offsets are found."""
        self.needs_unique = False
        self.moved = self.skipped = 0
        self._bind = bind
        self._offsets = offsets
        self._where = where

    @property
    def counts_rows(self) -> bool:
        """Whether it moves rows that indices name."""
        return any(staged.has_rows for staged in self.staged)

    def reset(self) -> None:
        """Begin to count."""
        self.moved = self.skipped = 0

    def run(self) -> None:
        """Run without checks."""
        self._run(is_checked=False)

    def run_checked(self) -> Diagnostic | None:
        """Run with checks, and give the first finding."""
        return self._run(is_checked=True)

    def _run(self, *, is_checked: bool) -> Diagnostic | None:
        try:
            offsets = self._find_offsets()
            if offsets is None:
                return None
            if not self.staged:
                return _run_bound(self._bind(offsets), is_checked=is_checked)
            kept = self._gather(offsets)
            found = _run_bound(self._bind(offsets), is_checked=is_checked)
            if kept is not None:
                dst, old, lost = kept
                np.copyto(dst, old, where=lost)
            self._scatter()
        except KernelError as error:
            if error.diagnostic.where:
                raise
            at_line = msgspec.structs.replace(error.diagnostic, where=self._where)
            raise KernelError(at_line) from error
        return found

    def _find_offsets(self) -> Offsets | None:
        """Where the operands lie in this run; None if the instruction is left out."""
        offsets = self._offsets
        if self.scalars:
            moved = list(offsets)
            for position, move in self.scalars:
                shift = move.find_shift()
                if shift is None:
                    return None
                moved[position] += shift
            offsets = tuple(moved)
        if self.staged:
            for staged in self.staged:
                staged.find()
            rows = [staged.inside for staged in self.staged if staged.has_rows]
            if rows:
                inside = min(int(np.count_nonzero(row)) for row in rows)
                self.moved += inside
                self.skipped += len(rows[0]) - inside
        if self.on_access is not None:
            self.on_access(offsets)
        return offsets

    def _gather(self, offsets: Offsets) -> tuple[Array, Array, Array] | None:
        """Fill temporaries; `dst`, its old contents, and which of its elements keep them."""
        lost: tuple[Array, tuple[int, ...]] | None = None
        for staged in self.staged:
            if staged.is_written and self.needs_unique and staged.has_repeats:
                raise KernelError(_repeated(staged))
            if staged.is_read:
                staged.gather()
            if not staged.is_written and self.dst is not None and not staged.inside.all():
                rows = ~staged.inside
                lost = (rows if lost is None else lost[0] | rows), staged.temp.shape
        if lost is None or self.dst is None:
            return None
        dst, (rows, shape) = self.dst(offsets), lost
        mask = np.broadcast_to(rows.reshape(-1, *(1,) * (len(shape) - 1)), shape)
        if self.axes is not None:
            mask = mask.transpose(self.axes)
        return dst, dst.copy(), mask.reshape(dst.shape)

    def _scatter(self) -> None:
        for staged in self.staged:
            if staged.is_written:
                staged.scatter()


def _run_bound(bound: Bound, *, is_checked: bool) -> Diagnostic | None:
    runs, args, with_checks = bound
    if not is_checked or with_checks is None:
        for run, arguments in zip(runs, args, strict=True):
            run(*arguments)
        return None
    first = None
    for run, arguments in zip(*with_checks, strict=True):
        found = run(*arguments)
        if first is None and isinstance(found, Diagnostic):
            first = found
    return first


def _repeated(staged: Staged) -> Diagnostic:
    return Diagnostic(
        code="NK308",
        what=f"run-time indices of `{staged.target.operand.role}` of `{staged.target.op}`",
        got="one row twice",
        limit="each row once, as `unique_indices=True` says",
        hint="add rows of equal index up before, for example with `nisa.nc_matmul`",
    )
