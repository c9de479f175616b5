"""Builds a `Moving` from an instruction of a Program.

Not modelled: run-time offsets of a tile of indices, and views of `.indirect` that were sliced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.isa.declaration import OFFSET_SUFFIX, Call
from nki_agent.isa.enums import Memory, OobMode
from nki_agent.isa.movement import TRANSPOSE_AXES
from nki_agent.isa.rules import engine_for
from nki_agent.isa.signature import Operand, Pattern
from nki_agent.program.overlap import find_form, make_form
from nki_agent.program.records import Dynamic, DynamicKind, Instruction, Program, Tensor
from nki_agent.program.validate import written_positions
from nki_agent.sim.forms import Form
from nki_agent.sim.moving import Binder, Moving, Offsets
from nki_agent.sim.offsets import (
    ScalarMove,
    Staged,
    Target,
    read_number,
    read_rows,
    read_snake,
)
from nki_agent.sim.plan import refuse
from nki_agent.sim.sequencer import Sequencer
from nki_agent.sim.sharing import Access, Watch
from nki_agent.sim.storage import Place

MakeBinder = Callable[[Call, Sequence[Place]], Binder]
COMPUTE = "dma_compute"
TRANSPOSE = "dma_transpose"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingParts:
    """What of a compilation an instruction's run-time parts need."""

    program: Program
    sequencer: Sequencer
    make_room: Callable[[int, Tensor, int], Place]
    watch: Watch
    """Of accesses to tensors that both cores see."""


class _Draft:
    """A Moving in the making."""

    def __init__(
        self, node: Instruction, form: Form, places: Sequence[Place], parts: MovingParts
    ) -> None:
        self.node = node
        self.form = form
        self.parts = parts
        self.signature = form.call.signature
        self.places = list(places)
        self.offsets = list(node.offsets)
        self.roles = [o.role for o in form.operands]
        self.operands = {o.role: o for o in self.signature.operands}
        self.written = set(written_positions(self.signature))
        self.scalars: list[tuple[int, ScalarMove]] = []
        self.staged: list[Staged] = []

    def target(self, position: int) -> Target:
        tensor = self.parts.program.tensors[self.node.tensors[position]]
        offset = self.node.offsets[position]
        assert isinstance(offset, int)
        place = self.places[position]
        operand = self.form.operands[position]
        return Target(position, operand, self.signature.op, tensor, place, offset)

    def add(self, dynamic: Dynamic) -> None:
        """One run-time offset."""
        target = self.target(dynamic.operand)
        role = self.roles[dynamic.operand]
        stride = dynamic.stride_bytes
        if role.endswith(OFFSET_SUFFIX):
            refuse("a run-time offset of a tile of indices")
        if stride <= 0 or stride % target.operand.dtype.itemsize:
            refuse(f"a run-time offset that counts in {stride} bytes")
        index = None
        if dynamic.register is None:
            index = self.target(self.roles.index(f"{role}{OFFSET_SUFFIX}"))
        if dynamic.kind is DynamicKind.SCALAR:
            self._add_scalar(target, index, dynamic)
            return
        assert index is not None
        shape = target.operand.shape
        if dynamic.kind is DynamicKind.VECTOR:
            read = read_rows(index, shape[0])
        else:
            if target.operand.pattern.free != ((target.operand.dtype.itemsize, shape[1]),):
                refuse("a view of a view of `.indirect`")
            read = read_snake(index, count=shape[1], engine=engine_for(self.form.call))
        self._add_staged(Staged(target, read, stride=stride, oob=dynamic.oob))

    def _add_scalar(self, target: Target, index: Target | None, dynamic: Dynamic) -> None:
        register, sequencer = dynamic.register, self.parts.sequencer
        if index is not None:
            value = read_number(index)
        else:
            assert register is not None
            number = register

            def value() -> int:
                return sequencer.get(number)

        last = target.last_index(target.operand.pattern, dynamic.stride_bytes)
        move = ScalarMove(target, value, dynamic.stride_bytes, last, dynamic.oob)
        self.scalars.append((target.position, move))

    def _add_staged(self, staged: Staged) -> None:
        position, operand = staged.target.position, staged.target.operand
        staged.is_written = position in self.written
        staged.is_read = not staged.is_written or position in self.form.reads
        counts = operand.shape
        memory = operand.memory
        assert memory is not None
        room = Tensor("", memory, counts, operand.dtype, staged.target.tensor.init, 0)
        index = self.node.tensors[position]
        place = self.parts.make_room(index, room, len(self.staged))
        staged.set_place(place)
        self.places[position], self.offsets[position] = place, 0
        self.operands[operand.role] = Operand(
            operand.role, memory, operand.dtype, _dense(counts, operand)
        )
        self.staged.append(staged)

    def finish(self, make_binder: MakeBinder) -> Moving:
        seen = [i for i, role in enumerate(self.roles) if not role.endswith(OFFSET_SUFFIX)]
        signature = self.signature
        if self.staged or len(seen) < len(self.roles):
            kept = tuple(o for r, o in self.operands.items() if not r.endswith(OFFSET_SUFFIX))
            signature = msgspec.structs.replace(signature, operands=kept)
        call = Call(self.form.call.declaration, signature, self.form.call.chip)
        bind = make_binder(call, [self.places[i] for i in seen])
        offsets = tuple(self.offsets[i] for i in seen)
        where = self.parts.program.stack(self.node.stack)
        moving = Moving(bind, offsets, where=where)  # type: ignore[arg-type]
        moving.scalars = [(seen.index(p), move) for p, move in self.scalars]
        moving.staged = self.staged
        moving.needs_unique = self.signature.op == COMPUTE
        if self.staged:
            self._keep_lost(moving, seen.index(0))
        self._watch(moving)
        return moving

    def _keep_lost(self, moving: Moving, position: int) -> None:
        """Rows that a source leaves out stay as they are in `dst`."""
        assert self.node.detail is not None
        if all(d.oob is OobMode.ERROR for d in self.node.detail.dynamic):
            return
        target = self.target(0)
        staged = next((s for s in self.staged if s.target.position == 0), None)
        counts = tuple(count for _, count in target.operand.pattern.free)
        strides = tuple(stride for stride, _ in target.operand.pattern.free)
        if staged is not None:
            staged.is_read = True
            moving.dst = lambda _offsets: staged.temp
        else:
            moving.dst = lambda offsets: target.view(counts, strides, offsets[position])
        if self.signature.op == TRANSPOSE:
            rank = len(self.operands["src"].shape)
            axes = self.signature.attribute("axes") or TRANSPOSE_AXES[rank]
            moving.axes = axes  # type: ignore[assignment]

    def _watch(self, moving: Moving) -> None:
        """Tell of accesses to tensors that both cores see."""
        watch, node = self.parts.watch, self.node
        tensors = node.tensors
        scalars = [
            (index, node.tensors[move.target.position], move.target.position)
            for index, move in moving.scalars
            if tensors[move.target.position] in watch.tensors
        ]
        staged = [s for s in self.staged if tensors[s.target.position] in watch.tensors]
        if not scalars and not staged:
            return
        forms = {p: find_form(self.form.operands[p]) for _, _, p in scalars}
        rows = [make_form(s.pattern, s.target.operand.dtype.itemsize) for s in staged]

        def on_access(offsets: Offsets) -> None:
            if watch.log is None:
                return
            for index, tensor, position in scalars:
                is_write = position in self.written
                access = Access(tensor, is_write, forms[position], offsets[index], node.stack)
                watch.log.add(watch.core, access)
            for item, row in zip(staged, rows, strict=True):
                position = item.target.position
                for offset in item.offsets:
                    access = Access(
                        tensors[position], position in self.written, row, offset, node.stack
                    )
                    watch.log.add(watch.core, access)

        moving.on_access = on_access


def make_moving(
    node: Instruction,
    form: Form,
    places: Sequence[Place],
    parts: MovingParts,
    make_binder: MakeBinder,
) -> Moving:
    """The run-time form of an instruction that has run-time offsets, registers, or neither."""
    draft = _Draft(node, form, places, parts)
    for dynamic in node.detail.dynamic if node.detail is not None else ():
        draft.add(dynamic)
    if draft.staged and draft.signature.op == COMPUTE:
        _require_compute(draft)
    return draft.finish(make_binder)


def _dense(counts: Sequence[int], operand: Operand) -> Pattern:
    on_chip = operand.pattern.partition is not None
    axes: list[tuple[int, int]] = []
    stride = operand.dtype.itemsize
    for count in reversed(counts[1:] if on_chip else counts):
        axes.append((stride, count))
        stride *= count
    return Pattern((0, 1, counts[0]) if on_chip else None, tuple(reversed(axes)))


def _require_compute(draft: _Draft) -> None:
    """`dma_compute` reads, changes and writes: rows of `dst`, or `dst` by rows of a source."""
    sources = [p for p, role in enumerate(draft.roles) if _is_source(role)]
    rows = {s.target.position for s in draft.staged}
    good = len(sources) == len(("old", "new")) and len(rows & set(sources)) == 1
    if good:
        (gathered,) = rows & set(sources)
        (other,) = set(sources) - rows
        # The source that stands for the old contents of `dst`.
        old = gathered if 0 in rows else other
        good = _is_same(draft, 0, old) and _is_in_sbuf(draft, other if 0 in rows else 0)
    if not good:
        raise KernelError(
            Diagnostic(
                code="NK308",
                what="operands of `dma_compute` with `vector_offset`",
                got=", ".join(r for r in draft.roles if not r.endswith(OFFSET_SUFFIX)),
                limit="rows of `dst` in HBM, the same rows, and a tile in SBUF; or a tile in SBUF,"
                " the same tile, and rows of a tensor in HBM",
                hint="write `dst[i] = dst[i] + src` or `dst = dst + src[i]`",
            )
        )


def _is_source(role: str) -> bool:
    return role != "dst" and not role.endswith(OFFSET_SUFFIX)


def _is_in_sbuf(draft: _Draft, position: int) -> bool:
    return draft.form.operands[position].memory is Memory.SBUF


def _is_same(draft: _Draft, first: int, second: int) -> bool:
    """Whether two operands are one view, at the same indices."""
    positions = [(first, second)]
    offsets = [f"{draft.roles[p]}{OFFSET_SUFFIX}" for p in (first, second)]
    if any(role in draft.roles for role in offsets):
        if not all(role in draft.roles for role in offsets):
            return False
        positions.append((draft.roles.index(offsets[0]), draft.roles.index(offsets[1])))
    node, operands = draft.node, draft.form.operands
    return all(
        node.tensors[a] == node.tensors[b]
        and node.offsets[a] == node.offsets[b]
        and operands[a].pattern == operands[b].pattern
        for a, b in positions
    )
