"""Collects what a traced kernel does and turns it into a Program.

Law: ids are given in order of first use, so two traces of one kernel have equal bytes in any
process. A `Recorder` is a seam: tracing is one, eager execution in the user's own process can be
another.
"""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec
import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Frame, Stack
from nki_agent.base.errors import KernelError
from nki_agent.base.hashes import hash_bytes
from nki_agent.chip.spec import ChipSpec, Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.isa.signature import Operand, Pattern, Signature
from nki_agent.program.records import (
    Access,
    Argument,
    Constant,
    Detail,
    Dialect,
    Init,
    Instruction,
    Launch,
    Node,
    Program,
    Register,
    Result,
    Scope,
    ScopeKind,
    StaticValue,
    Tensor,
    walk,
)
from nki_agent.program.structure import INSTRUCTIONS_MAX

_OWN_FOLDER = str(Path(__file__).parents[2]) + os.sep
_MACHINERY = ("<frozen ", contextlib.__file__)
"""Python's own frames between a kernel's: imports, and `with`."""
_FIRST_OWN = ("run_entry", "_trace_files", "run_script")
"""Functions of ours that run code of others: what called them is no part of a kernel's stack."""

Form = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""Kind, first partition, shape, strides: views of equal forms make equal operands."""

_KIND_IDS: dict[tuple[Memory, DType], int] = {}
_KINDS: list[tuple[Memory, DType]] = []
_FORMS: list[Form] = []
_OPERANDS: dict[tuple[str, int], Operand] = {}


class _FormIds(dict[Form, int]):
    """Gives a form that it has not seen the next number."""

    def __missing__(self, form: Form) -> int:
        number = self[form] = len(_FORMS)
        _FORMS.append(form)
        return number


FORM_IDS = _FormIds()
"""A small number for a form, the same for equal forms in this process."""


def kind_id(memory: Memory, dtype: DType) -> int:
    """A small number for a memory and a dtype: enum members hash slowly, numbers do not."""
    number = _KIND_IDS.get((memory, dtype))
    if number is None:
        number = _KIND_IDS[memory, dtype] = len(_KINDS)
        _KINDS.append((memory, dtype))
    return number


def operand_of(role: str, form: int) -> Operand:
    """The operand record of a form in a role."""
    key = (role, form)
    operand = _OPERANDS.get(key)
    if operand is None:
        kind, start, shape, strides = _FORMS[form]
        memory, dtype = _KINDS[kind]
        if memory.is_on_chip:
            free = tuple(zip(strides[1:], shape[1:], strict=True))
            pattern = Pattern((start, strides[0], shape[0]), free)
        else:
            pattern = Pattern(None, tuple(zip(strides, shape, strict=True)))
        operand = _OPERANDS[key] = Operand(role, memory, dtype, pattern)
    return operand


class Recorder:
    """The state of one trace."""

    def __init__(self, *, target: Target, kernel: str) -> None:
        """Start an empty trace for `target`."""
        self.target = target
        self.chip: ChipSpec = load_chip(target)
        self.kernel = kernel
        self.known: dict[tuple[object, ...], int] = {}
        self.body: list[Node] = []
        """Where instructions go now: the innermost open loop or scope, else the core's own list."""
        self.tensors: list[Tensor] = []
        self.launch = Launch()
        self.core = 0
        self.path: tuple[int, ...] = ()
        """Numbers of the open loops, outermost first."""
        self.no_reorder = False
        self.num_instructions = 0
        self.instructions_max = INSTRUCTIONS_MAX
        self._bodies: list[list[Node]] = []
        self._outer: list[list[Node]] = []
        self._num_loops = 0
        self._registers: list[Register] = []
        self._shared: list[int] = []
        self._num_shared = 0
        self._signatures: dict[Signature, int] = {}
        self._arguments: list[Argument] = []
        self._constants: dict[tuple[str, str, tuple[int, ...]], int] = {}
        self._constant_rows: list[Constant] = []
        self._sites: dict[Frame, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._stack_ids: dict[tuple[int, ...], int] = {}
        self._is_own: dict[str, bool] = {}
        self._keep: list[object] = []

    def start_core(self, core: int) -> None:
        """Begin the trace of one core; cores share arguments and `shared_hbm` tensors."""
        self.core = core
        self.body = []
        self.path = ()
        self.num_instructions = 0
        self._bodies.append(self.body)
        self._outer = []
        self._num_shared = 0

    def stop_too_large(self) -> NoReturn:
        """End a trace that has become too large, at the line that made most of it."""
        nodes = [n for body in (*self._outer, self.body) for n in walk(tuple(body))]
        stack, count = Counter(node.stack for node in nodes).most_common(1)[0]
        sites, stacks = list(self._sites), list(self._stacks)
        raise KernelError(
            Diagnostic(
                code="NK111",
                what=f"the traced Program is too large: it has more than {self.instructions_max}"
                f" instructions, {count} of them from the loop around this line",
                hint="use larger tiles, or `nl.fori_loop`, whose body is traced once",
                where=tuple(sites[site] for site in stacks[stack]),
            )
        )

    def open_body(self) -> None:
        """Collect what follows in a list of its own."""
        self._outer.append(self.body)
        self.body = []

    def close_body(self) -> tuple[Node, ...]:
        """End the innermost list and give what it holds."""
        body, self.body = self.body, self._outer.pop()
        return tuple(body)

    def open_loop(self) -> int:
        """Begin the body of a loop and give the loop's number."""
        number = self._num_loops
        self._num_loops += 1
        self.path = (*self.path, number)
        self.open_body()
        return number

    def close_loop(self) -> tuple[Node, ...]:
        """End the innermost loop's body."""
        self.path = self.path[:-1]
        return self.close_body()

    def add_register(self, name: str) -> int:
        """Record a register and give its id."""
        self._registers.append(Register(name, None))
        return len(self._registers) - 1

    def add_order(self, number: int, producers: tuple[int, ...]) -> None:
        """Let instruction `number` wait for earlier ones of the same open body."""
        first = self.num_instructions - sum(1 for _ in walk(tuple(self.body)))
        for position, node in enumerate(self.body):
            if isinstance(node, Instruction) and first + position == number:
                break
            if not isinstance(node, Instruction):
                first += sum(1 for _ in walk((node,))) - 1
        else:
            fail("NK401", "`depends_on` across a loop or scope", hint="order within one body")
        here = range(first, number)
        if not all(p in here for p in producers):
            fail(
                "NK401",
                "`depends_on` names an instruction outside of this body, or a later one",
                hint="both instructions must lie in the same loop body, the producer first",
            )
        detail = node.detail or Detail()
        after = (*detail.after, *producers)
        self.body[position] = msgspec.structs.replace(
            node, detail=msgspec.structs.replace(detail, after=after)
        )

    def find_shared(self, tensor: Tensor) -> int | None:
        """The tensor of core 0 that this `shared_hbm` allocation of core 1 stands for."""
        number = self._num_shared
        self._num_shared += 1
        if self.core == 0:
            return None
        if number < len(self._shared):
            first = self.tensors[self._shared[number]]
            if (first.shape, first.dtype) == (tensor.shape, tensor.dtype):
                return self._shared[number]
        fail(
            "NK116",
            f"`shared_hbm` allocation {number} of core 1 ({tensor.name} {list(tensor.shape)})",
            got="no match on core 0",
            limit="the same allocations in the same order on both cores",
            hint="allocate shared tensors before branching on `nl.program_id(0)`",
        )

    def stack_id(self, frame: FrameType | None) -> int:
        """The id of the call stack that starts at `frame`."""
        key: list[int] = []
        walk = frame
        while walk is not None:
            key.append(id(walk.f_code))
            key.append(walk.f_lasti)
            walk = walk.f_back
        found = self._stack_ids.get(tuple(key))
        if found is None:
            # Code objects are kept alive, so that an id names one of them for the whole trace.
            walk = frame
            while walk is not None:
                self._keep.append(walk.f_code)
                walk = walk.f_back
            found = self._stack_ids[tuple(key)] = self._intern_stack(frames_of(frame))
        return found

    def makers(self) -> list[Frame | None]:
        """The innermost place that made each tensor."""
        sites, stacks = list(self._sites), list(self._stacks)
        lasts = [sites[stack[-1]] if stack else None for stack in stacks]
        return [lasts[tensor.stack] for tensor in self.tensors]

    def _intern_stack(self, frames: Stack) -> int:
        sites = tuple(self._sites.setdefault(f, len(self._sites)) for f in frames)
        return self._stacks.setdefault(sites, len(self._stacks))

    def signature_id(self, signature: Signature) -> int:
        """The id of a signature."""
        return self._signatures.setdefault(signature, len(self._signatures))

    def add_tensor(self, tensor: Tensor) -> int:
        """Record an allocation and give its id; a shared one of core 1 has the id of core 0's."""
        if tensor.memory is Memory.SHARED_HBM:
            known = self.find_shared(tensor)
            if known is not None:
                return known
            self._shared.append(len(self.tensors))
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def add_argument(
        self, name: str, tensor: Tensor | None, value: StaticValue, access: Access
    ) -> int | None:
        """Record one kernel argument and give its tensor's id."""
        number = None if tensor is None else self.add_tensor(tensor)
        self._arguments.append(Argument(name, number, value, access))
        return number

    def add_constant(self, array: np.ndarray, dtype: DType) -> int:
        """Record a host array that the kernel uses as data and give its id."""
        data = np.ascontiguousarray(array).tobytes()
        key = (hash_bytes(data), dtype.value, tuple(array.shape))
        number = self._constants.get(key)
        if number is None:
            number = self._constants[key] = len(self._constant_rows)
            self._constant_rows.append(Constant(key[0], dtype, key[2], data))
        return number

    def fork(self) -> Recorder:
        """A recorder that goes on from here on its own."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                setattr(twin, name, value.copy())
        return twin

    def so_far(self) -> Program:
        """The Program of what is recorded until now, without results; no loop may be open."""
        body = tuple(self.body)
        for outer in reversed(self._outer):
            body = (*outer, Scope(ScopeKind.NO_REORDER, 1, body))
        return self._program((), (*map(tuple, self._bodies[:-1]), body))

    def finish(self, results: tuple[Result, ...]) -> Program:
        """The Program of everything recorded."""
        return self._program(results, tuple(tuple(body) for body in self._bodies))

    def _program(
        self, results: tuple[Result, ...], bodies: tuple[tuple[Node, ...], ...]
    ) -> Program:
        return Program(
            dialect=Dialect.CURRENT,
            target=self.target.value,
            kernel=self.kernel,
            launch=self.launch,
            arguments=tuple(self._arguments),
            results=results,
            tensors=tuple(self.tensors),
            constants=tuple(self._constant_rows),
            registers=tuple(self._registers),
            signatures=tuple(self._signatures),
            sites=tuple(self._sites),
            stacks=tuple(self._stacks),
            bodies=bodies,
        )


class _State:
    """The recorder that calls go to, and the target where there is none yet: at import time.

    One trace at a time in a process.
    """

    recorder: Recorder | None = None
    oracle: Callable[[object], np.ndarray | None] | None = None
    """Gives a tile or a register its value, in the user's own process only."""
    target: Target | None = None


STATE = _State()


def frames_of(frame: FrameType | None) -> Stack:
    """The kernel's own frames, outermost first; this package's frames are left out."""
    frames: list[Frame] = []
    while frame is not None:
        code = frame.f_code
        own = code.co_filename.startswith(_OWN_FOLDER)
        if own and code.co_name in _FIRST_OWN:
            break
        if not own and not code.co_filename.startswith(_MACHINERY):
            frames.append(Frame(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(reversed(frames))


def require_recorder(what: str) -> Recorder:
    """The active recorder; an error for a call outside of a kernel."""
    if STATE.recorder is None:
        fail(
            "NK109",
            f"`{what}` is called outside of a kernel",
            hint="call it inside a function decorated with `@nki.jit`",
        )
    return STATE.recorder


def require_chip(what: str) -> ChipSpec:
    """The chip that the running trace, or the module that is being imported, is for."""
    if STATE.recorder is None and STATE.target is not None:
        return load_chip(STATE.target)
    return require_recorder(what).chip


def fail(code: str, what: str, *, got: str = "", limit: str = "", hint: str = "") -> NoReturn:
    """Raise a KernelError at the kernel line that is running."""
    where = frames_of(sys._getframe(1))
    # A memory region is a kind of text that no message can be stored with.
    what, got, limit, hint = map(str.__str__, (what, got, limit, hint))
    raise KernelError(
        Diagnostic(code=code, what=what, got=got, limit=limit, hint=hint, where=where)
    )


def require_generation(what: str, generation: int) -> None:
    """Refuse what an older chip does not have."""
    found = require_recorder(what).chip.generation
    if found < generation:
        fail(
            "NK311",
            f"{what} on NeuronCore-v{found}",
            got="not available",
            limit=f"NeuronCore-v{generation} or newer",
            hint="choose another target",
        )


def fail_with(finding: Diagnostic) -> NoReturn:
    """Raise a finding of `isa` at the kernel line that is running."""
    fail(finding.code, finding.what, got=finding.got, limit=finding.limit, hint=finding.hint)


def make_tensor(
    *,
    name: str,
    memory: Memory,
    shape: tuple[int, ...],
    dtype: DType,
    init: Init = Init.POISON,
    address: tuple[int, int] | None = None,
) -> Tensor:
    """A tensor record for the kernel line that is running."""
    recorder = require_recorder("nl.ndarray")
    stack = recorder.stack_id(sys._getframe(1))
    path = recorder.path if memory.is_on_chip else ()
    return Tensor(name, memory, shape, dtype, init, stack, address, scope=path)
