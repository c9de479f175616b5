"""Collects what a traced kernel does and turns it into a Program.

Law: ids are given in order of first use, so two traces of one kernel have equal bytes in any
process. A `Recorder` is a seam: tracing is one, eager execution in the user's own process can be
another.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

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
    Dialect,
    Init,
    Instruction,
    Launch,
    Program,
    Result,
    StaticValue,
    Tensor,
)

_OWN_FOLDER = str(Path(__file__).parents[2]) + os.sep
_IMPORT_MACHINERY = "<frozen "
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
        self.body: list[Instruction] = []
        self.tensors: list[Tensor] = []
        self.launch = Launch()
        self._signatures: dict[Signature, int] = {}
        self._arguments: list[Argument] = []
        self._constants: dict[tuple[str, str, tuple[int, ...]], int] = {}
        self._constant_rows: list[Constant] = []
        self._sites: dict[Frame, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._stack_ids: dict[tuple[int, ...], int] = {}
        self._is_own: dict[str, bool] = {}
        self._keep: list[object] = []

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

    def _intern_stack(self, frames: Stack) -> int:
        sites = tuple(self._sites.setdefault(f, len(self._sites)) for f in frames)
        return self._stacks.setdefault(sites, len(self._stacks))

    def signature_id(self, signature: Signature) -> int:
        """The id of a signature."""
        return self._signatures.setdefault(signature, len(self._signatures))

    def add_tensor(self, tensor: Tensor) -> int:
        """Record an allocation and give its id."""
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

    def finish(self, results: tuple[Result, ...]) -> Program:
        """The Program of everything recorded."""
        return Program(
            dialect=Dialect.CURRENT,
            target=self.target.value,
            kernel=self.kernel,
            launch=self.launch,
            arguments=tuple(self._arguments),
            results=results,
            tensors=tuple(self.tensors),
            constants=tuple(self._constant_rows),
            registers=(),
            signatures=tuple(self._signatures),
            sites=tuple(self._sites),
            stacks=tuple(self._stacks),
            bodies=(tuple(self.body),),
        )


class _State:
    """The recorder that calls go to, and the target where there is none yet: at import time.

    One trace at a time in a process.
    """

    recorder: Recorder | None = None
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
        if not own and not code.co_filename.startswith(_IMPORT_MACHINERY):
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
    raise KernelError(
        Diagnostic(code=code, what=what, got=got, limit=limit, hint=hint, where=where)
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
    return Tensor(name, memory, shape, dtype, init, stack, address)
