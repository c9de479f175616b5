"""Follows unwritten bytes through a Program: do they reach an output, or only what is thrown away?

Law: never says "no" wrongly. An instruction whose result mixes elements in a way that is not known
here spreads poison over the whole row, or over everything where rows mix. Run only for Programs
that read unwritten bytes: a kernel that loads a short tail, computes on the full tile and stores
the tail is right.
Not covered, so answered with "yes": loops, two cores, and unwritten bytes that reach a register.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nki_agent.isa.declaration import OFFSET_SUFFIX
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ReduceCommand
from nki_agent.isa.signature import Operand, Signature
from nki_agent.memory.columns import Columns
from nki_agent.memory.forms import Flags
from nki_agent.memory.parts import MATMULS, parts_of
from nki_agent.memory.rules.nk208_result_unwritten import find_outputs
from nki_agent.memory.states import State, States
from nki_agent.program.records import Access, Affine, Instruction
from nki_agent.program.registers import reachable

CLEAN, UNWRITTEN, POISONED = 0, 1, 2
BYTES_MAX = 2**28
"""A larger tensor is not followed: the answer is then "yes"."""

ELEMENTWISE = frozenset(
    {
        "dma_copy",
        "tensor_copy",
        "tensor_copy_predicated",
        "tensor_tensor",
        "tensor_scalar",
        "scalar_tensor_tensor",
        "reciprocal",
        "activation",
        "activation_reduce",
        "tensor_scalar_reduce",
        "select_reduce",
        "range_select",
        "affine_select",
        "dma_compute",
        "activate2",
        "exponential",
    }
)
"""Instructions whose `dst` element depends on the same element of each input, or on a row's scalar.
"""


MIXES_ROWS = frozenset(
    {"local_gather", "topk", "nc_stream_shuffle", "quantize_mx", "nc_matmul_mx", "sequence_bounds"}
)
"""Instructions whose results may depend on any partition, however many they have."""
SEEDS_RANDOM = frozenset({"set_rng_seed", "rand_set_state"})
DRAWS_RANDOM = frozenset({"rng", "rand2", "rand_get_state", "dropout"})

Offset = int | Affine
Input = tuple[Operand, Flags]
"""An input with the elements, (partitions, elements of a partition), that are not clean."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one signature reads and writes: (place of the tensor, part of the operand)."""

    signature: Signature
    reads: tuple[tuple[int, Operand], ...]
    writes: tuple[tuple[int, Operand], ...]
    adds: bool
    """A matmul that keeps poison which its `dst` already holds."""
    command: ReduceCommand | None
    is_plain: bool
    """Whether it has no effect but on the tensors that it writes, and knows of no others."""


def _make_plan(signature: Signature) -> _Plan:
    parts = tuple(parts_of(signature))
    command = signature.attribute("reduce_cmd")
    if signature.op == "activation_reduce":
        command = ReduceCommand.RESET_REDUCE
    return _Plan(
        signature=signature,
        reads=tuple((place, operand) for place, operand, reads, _ in parts if reads),
        writes=tuple((place, operand) for place, operand, _, writes in parts if writes),
        adds=signature.op in MATMULS and signature.attribute("accumulate") is not False,
        command=None if command is None else ReduceCommand(str(command)),
        is_plain=command in (None, ReduceCommand.IDLE)
        and signature.op not in SEEDS_RANDOM | DRAWS_RANDOM | {"register_load"},
    )


def reaches_an_output(columns: Columns) -> bool:
    """Whether an unwritten byte may change a result or an argument that the kernel writes."""
    line = columns.line
    if line.spans or line.core_of is not None or _too_large(columns):
        return True
    tracker = _Tracker(columns)
    for time, instruction in enumerate(columns.body):
        tracker.step(instruction)
        tracker.forget(time)
    return tracker.is_lost or tracker.output_is_poisoned()


def _too_large(columns: Columns) -> bool:
    sizes = columns.partition_bytes * columns.partitions
    written = np.zeros(len(sizes), np.bool_)
    written[columns.tensor[columns.writes]] = True
    return bool((sizes[written | columns.unwritten_at_start] > BYTES_MAX).any())


class _Tracker:
    """The state of every byte that is not clean."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._program = columns.program
        self._states = States()
        self._plans: dict[int, _Plan] = {}
        self._registers: dict[bool, bool] = {}
        self._touched = np.zeros(len(self._program.tensors), np.bool_)
        self._is_read = self._touched.copy()
        self._is_read[columns.tensor[columns.reads | columns.forms.is_matmul[columns.form]]] = True
        self._random_is_dirty = False
        self.is_lost = False
        """Whether unwritten bytes went where they are not followed."""
        self._by_end: dict[int, list[int]] = {}
        self._outputs = {o.tensor for o in find_outputs(columns)}
        self._outputs |= {
            a.tensor
            for a in self._program.arguments
            if a.tensor is not None and a.access is not Access.READ
        }

    def step(self, instruction: Instruction) -> None:
        """Carry one instruction's poison over."""
        plan = self._plan(instruction.signature)
        if not plan.is_plain or instruction.detail is not None:
            self._carry(plan, instruction)
            return
        for tensor in instruction.tensors:
            self._state(tensor)
        key = self._states.key(instruction)
        if key is None or not self._states.repeat(key, instruction):
            self._carry(plan, instruction)
            if key is not None:
                written = tuple(dict.fromkeys(place for place, _ in plan.writes))
                self._states.remember(key, instruction, written)

    def _carry(self, plan: _Plan, instruction: Instruction) -> None:
        tensors, offsets = instruction.tensors, instruction.offsets
        moved = _moved_places(instruction)
        inputs: list[Input] = []
        for place, operand in plan.reads:
            if self._state(tensors[place]) is not None:
                flags = self._load(operand, tensors[place], offsets[place], is_moved=place in moved)
                if flags.any():
                    inputs.append((operand, flags))
        op = plan.signature.op
        self.is_lost |= op == "register_load" and bool(inputs)
        self._random_is_dirty |= op in SEEDS_RANDOM and bool(inputs)
        in_register = self._accumulate(plan, inputs)
        for place, operand in plan.writes:
            poison = _spread(plan.signature, operand, inputs) if inputs else None
            if in_register and operand.role == "reduce_res":
                poison = _everything(operand)
            if self._random_is_dirty and op in DRAWS_RANDOM:
                poison = _everything(operand)
            if plan.adds and self._state(tensors[place]) is not None:
                old = self._load(operand, tensors[place], offsets[place], least=POISONED)
                poison = old if poison is None else poison | old
            if place in moved:
                self._store_somewhere(operand, tensors[place], poison)
            else:
                self._store(operand, tensors[place], offsets[place], poison)

    def _plan(self, signature: int) -> _Plan:
        plan = self._plans.get(signature)
        if plan is None:
            plan = self._plans[signature] = _make_plan(self._program.signatures[signature])
        return plan

    def _accumulate(self, plan: _Plan, inputs: list[Input]) -> bool:
        """Whether an engine's accumulators hold poison after this instruction."""
        command = plan.command
        if command is None:
            return False
        is_scalar = plan.signature.op.startswith("activat")
        dirty = self._registers.get(is_scalar, False)
        match command:
            case ReduceCommand.IDLE:
                pass
            case ReduceCommand.RESET:
                dirty = False
            case ReduceCommand.RESET_REDUCE | ReduceCommand.LOAD_REDUCE:
                dirty = bool(inputs)
            case ReduceCommand.REDUCE:
                dirty = dirty or bool(inputs)
        self._registers[is_scalar] = dirty
        return dirty

    def _state(self, tensor: int) -> State | None:
        """The state of a tensor's bytes; None while all of them are clean."""
        if not self._touched[tensor]:
            self._touched[tensor] = True
            if self._columns.unwritten_at_start[tensor] and self._is_read[tensor]:
                self._make(tensor, UNWRITTEN)
        return self._states.get(tensor)

    def _make(self, tensor: int, value: int) -> State:
        record = self._program.tensors[tensor]
        shape = (record.partitions, record.partition_bytes)
        state = self._states.fill(tensor, shape, value)
        if tensor not in self._outputs:
            end = int(self._columns.last_use[tensor])
            self._by_end.setdefault(end, []).append(tensor)
        return state

    def forget(self, time: int) -> None:
        """Drop the tensors that nothing touches after this instruction."""
        for tensor in self._by_end.pop(time, ()):
            self._states.drop(tensor)

    def _load(
        self,
        operand: Operand,
        tensor: int,
        offset: Offset,
        *,
        least: int = UNWRITTEN,
        is_moved: bool = False,
    ) -> Flags:
        """Which elements of an operand are in this state or worse: (partitions, elements)."""
        if is_moved:
            shape = (operand.pattern.partitions, operand.pattern.free_elems)
            reach = reachable(operand, self._program.tensors[tensor])
            return np.full(shape, self._load(reach, tensor, 0).any())
        state = self._states.get(tensor)
        assert state is not None
        view = _view(state, operand, offset)
        flags: Flags = (view if least == UNWRITTEN else view & _all_bytes(operand, least)) != 0
        return flags.reshape(operand.pattern.partitions, operand.pattern.free_elems)

    def _store(self, operand: Operand, tensor: int, offset: Offset, poison: Flags | None) -> None:
        if self._state(tensor) is None:
            if poison is None or not poison.any():
                return
            self._make(tensor, CLEAN)
        state = self._states.writable(tensor)
        assert state is not None
        view = _view(state, operand, offset)
        if poison is None:
            view[...] = 0
        else:
            view[...] = np.where(poison.reshape(view.shape), _all_bytes(operand, POISONED), 0)

    def _store_somewhere(self, operand: Operand, tensor: int, poison: Flags | None) -> None:
        """A write at an offset that is not known: nothing is clean after it that was not before."""
        if poison is not None and poison.any():
            reach = reachable(operand, self._program.tensors[tensor])
            self._store(reach, tensor, 0, _everything(reach))

    def output_is_poisoned(self) -> bool:
        """Whether an output ends up with poison that was written to it."""
        states = (self._states.get(tensor) for tensor in self._outputs)
        return any(state is not None and state.max() == POISONED for state in states)


def _moved_places(instruction: Instruction) -> tuple[int, ...]:
    """Places of the operands that a run-time value moves."""
    detail = instruction.detail
    return () if detail is None else tuple(d.operand for d in detail.dynamic)


def _view(state: State, operand: Operand, offset: Offset) -> npt.NDArray[np.unsignedinteger]:
    """The states of an operand's bytes, those of one element read as one number."""
    assert isinstance(offset, int)
    start, step, count = operand.pattern.partition or (0, 1, 1)
    row_bytes = state.shape[1]
    shape = (count, *(n for _, n in operand.pattern.free))
    strides = (step * row_bytes, *(s for s, _ in operand.pattern.free))
    return np.ndarray(shape, _word(operand), state, start * row_bytes + offset, strides)


def _word(operand: Operand) -> np.dtype[np.unsignedinteger]:
    return _WORDS[operand.dtype.itemsize]


def _all_bytes(operand: Operand, value: int) -> np.unsignedinteger:
    """The number whose every byte is `value`."""
    return _FILLED[operand.dtype.itemsize, value]


_WORDS = {size: np.dtype(f"u{size}") for size in sorted({d.itemsize for d in DType})}
_FILLED: dict[tuple[int, int], np.unsignedinteger] = {
    (size, value): word.type(int.from_bytes(bytes([value]) * size, "little"))
    for size, word in _WORDS.items()
    for value in (CLEAN, UNWRITTEN, POISONED)
}


def _any(flags: Flags, *, axis: int) -> Flags:
    return np.logical_or.reduce(flags, axis=axis)  # type: ignore[no-any-return]


def _everything(operand: Operand) -> Flags:
    return np.ones((operand.pattern.partitions, operand.pattern.free_elems), np.bool_)


def _spread(signature: Signature, target: Operand, inputs: list[Input]) -> Flags:
    """Which elements of a written operand depend on poison."""
    result = np.zeros((target.pattern.partitions, target.pattern.free_elems), np.bool_)
    for operand, flags in inputs:
        part = _spread_one(signature, target, operand, flags)
        result |= _rows_or_everything(target, flags) if part is None else part
    return result


def _spread_one(
    signature: Signature, target: Operand, operand: Operand, flags: Flags
) -> Flags | None:
    """The same for one input; None where the instruction is not known to keep elements apart."""
    shape = (target.pattern.partitions, target.pattern.free_elems)
    if operand.role.endswith(OFFSET_SUFFIX):
        return _everything(target)
    match signature.op:
        case op if op in MIXES_ROWS:
            return _everything(target)
        case "nc_matmul":
            is_stationary = operand.role == "stationary"
            # In double_row mode each lane has two halves of the contraction, one after the other.
            halves = _any(flags, axis=0).reshape(-1, shape[0] if is_stationary else shape[1])
            lanes = _any(halves, axis=0)
            return lanes[:, None] if is_stationary else lanes[None, :]
        case "nc_transpose":
            return flags.T
        case "dma_transpose" if len(operand.shape) == len(("row", "column")):
            return flags.reshape(operand.shape).T.reshape(shape)
        case "tensor_partition_reduce":
            return _any(flags, axis=0)[None, :]
        case "tensor_reduce":
            return _any(flags.reshape(*shape, -1), axis=-1)
        case op if op in ELEMENTWISE and target.role == "dst":
            if flags.size == shape[0] * shape[1]:
                return flags.reshape(shape)
    return None


def _rows_or_everything(target: Operand, flags: Flags) -> Flags:
    rows, size = target.pattern.partitions, target.pattern.free_elems
    if len(flags) != rows:
        return _everything(target)
    return np.broadcast_to(_any(flags, axis=1)[:, None], (rows, size))
