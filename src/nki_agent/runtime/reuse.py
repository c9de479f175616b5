"""When a second call may use the trace of the first.

Law: a key holds everything that a trace can depend on: the code of the kernel and of every function
that it names, defaults, and the value of every global and closure variable that they name, besides
the shapes, dtypes and static values of the call. What cannot be written down as a plain value, or
code that prints or looks around, has no key, and every call traces anew.
Source: NKI language guide, "Kernel Caching": kernels must be pure; here a change is seen.
"""

from __future__ import annotations

import builtins
import dis
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from nki_agent.base.hashes import hash_bytes
from nki_agent.nki.current.jit import Kernel
from nki_agent.nki.current.modules import PUBLIC
from nki_agent.nki.current.values import MemberSet

Key = tuple[Any, ...]
FIXED_MODULES = frozenset(
    {"dataclasses", "enum", "functools", "itertools", "math", "ml_dtypes", "nki", "numpy", "typing"}
)
"""Modules whose names no honest program rebinds."""
IMPURE = frozenset(
    {
        "breakpoint",
        "delattr",
        "eval",
        "exec",
        "getattr",
        "globals",
        "hash",
        "id",
        "input",
        "locals",
        "open",
        "print",
        "random",
        "setattr",
        "vars",
    }
)
"""Names in code whose effect or value a key cannot hold; `random` is NumPy's."""
NUMPY_FILES = frozenset({"fromfile", "genfromtxt", "load", "loadtxt", "memmap"})
"""What NumPy reads files with; `nl.load` is no such thing."""
ELEMS_MAX = 10_000
"""Elements of containers that a key may hold."""
ARRAY_BYTES_MAX = 2**20
PUBLIC_VALUES = [value for names in PUBLIC.values() for value in names.values()]
PUBLIC_VALUES += [m for value in PUBLIC_VALUES if isinstance(value, MemberSet) for m in value]
PUBLIC_IDS = {id(value) for value in PUBLIC_VALUES}
"""Our own objects: they live as long as the process and never change."""
KERNEL_STATE = frozenset(vars(Kernel(lambda: None)))
"""Attributes that every kernel has."""
FIXED_KINDS = (type, FunctionType, BuiltinFunctionType)
PLAIN_TYPES = (bool, int, str, bytes, type(None), type(...))
BUILTINS = frozenset(id(value) for value in vars(builtins).values())


class _NoKeyError(Exception):
    """Something that a key cannot hold."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a code object, with those nested in it, can look up."""

    names: tuple[str, ...]
    file_roots: frozenset[str]
    """Names whose attribute `load`, or another of `NUMPY_FILES`, is taken."""
    is_impure: bool


@functools.lru_cache(maxsize=512)
def _facts_of(code: CodeType) -> _Facts:
    names: dict[str, None] = {}
    roots: set[str] = set()
    impure = False
    for nested in _codes(code):
        names.update(dict.fromkeys(nested.co_names))
        steps = list(dis.get_instructions(nested))
        impure |= any(step.opname == "IMPORT_NAME" for step in steps)
        roots.update(str(a.argval) for a, b in pairwise(steps) if b.argval in NUMPY_FILES)
    return _Facts(tuple(names), frozenset(roots), impure or not IMPURE.isdisjoint(names))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def find_key(kernel: Kernel) -> Key | None:
    """A key of the kernel's code and of all that it reads; None where there is none."""
    try:
        return tuple(_Reader().read_function(kernel.function))
    except (_NoKeyError, RecursionError):
        return None


def find_value_key(value: object) -> Key | None:
    """A key of a static argument; None where there is none."""
    try:
        return tuple(_Reader().read(value))
    except (_NoKeyError, RecursionError):
        return None


class _Reader:
    """Writes values down once; functions that were met before only by number."""

    def __init__(self) -> None:
        self._functions: dict[int, int] = {}
        self._num_elems = 0

    def read_function(self, function: Any) -> Iterator[object]:
        if not isinstance(function, FunctionType):
            raise _NoKeyError
        number = self._functions.get(id(function))
        if number is not None:
            yield ("again", number)
            return
        self._functions[id(function)] = len(self._functions)
        facts = _facts_of(function.__code__)
        if facts.is_impure or vars(function):
            raise _NoKeyError
        if any(_reads_files(function.__globals__.get(root)) for root in facts.file_roots):
            raise _NoKeyError
        # Two equal codes that differ in their lines make different messages.
        yield ("function", function.__code__, function.__code__.co_filename)
        yield from self.read(function.__defaults__)
        yield from self.read(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            yield from self.read(_content(cell))
        for name in facts.names:
            yield name
            if name in function.__globals__:
                yield from self.read(function.__globals__[name])
            else:
                yield from self._read_builtin(name)

    def _read_builtin(self, name: str) -> Iterator[object]:
        """A built-in, or a name that is only an attribute's: then nothing hangs on it."""
        value = vars(builtins).get(name)
        if value is not None and id(value) not in BUILTINS:
            raise _NoKeyError
        yield "built in" if value is not None else "absent"

    def read(self, value: object) -> Iterator[object]:
        self._num_elems += 1
        if self._num_elems > ELEMS_MAX:
            raise _NoKeyError
        kind = type(value)
        if kind in PLAIN_TYPES:
            yield (kind, value)
        elif isinstance(value, float | complex):
            yield (kind, repr(value))
        elif id(value) in PUBLIC_IDS or id(value) in BUILTINS:
            yield ("object", id(value))
        elif kind in (tuple, list, dict):
            yield from self._read_items(value)
        elif isinstance(value, Kernel) and vars(value).keys() == KERNEL_STATE:
            yield ("kernel", value.lnc)
            yield from self.read_function(value.function)
        elif isinstance(value, FunctionType) and not _is_fixed(value.__module__):
            yield from self.read_function(value)
        else:
            yield from self._read_other(value)

    def _read_items(self, value: Any) -> Iterator[object]:
        items = value.items() if isinstance(value, dict) else value
        yield (type(value), len(items))
        for item in items:
            yield from self.read(item)

    def _read_other(self, value: object) -> Iterator[object]:
        if isinstance(value, ModuleType):
            yield from _read_module(value)
        elif isinstance(value, np.ndarray | np.generic | np.dtype):
            yield from _read_numpy(value)
        elif isinstance(value, FIXED_KINDS) and _is_fixed(value.__module__):
            if value.__name__ in NUMPY_FILES:
                raise _NoKeyError
            yield ("object", value.__module__, value.__qualname__)
        elif isinstance(value, np.ufunc):
            yield ("ufunc", value.__name__)
        else:
            raise _NoKeyError


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError as error:  # not bound yet
        raise _NoKeyError from error


def _is_fixed(module: str | None) -> bool:
    """Whether this is a module whose names stay what they are and give the same each time."""
    if module is None or module.startswith("numpy.random"):
        return False
    return module.partition(".")[0] in FIXED_MODULES


def _reads_files(root: object) -> bool:
    return isinstance(root, ModuleType) and root.__name__.partition(".")[0] == "numpy"


def _read_module(module: ModuleType) -> Iterator[object]:
    if not _is_fixed(module.__name__):
        raise _NoKeyError
    yield ("module", module.__name__)


def _read_numpy(value: Any) -> Iterator[object]:
    if isinstance(value, np.dtype):
        yield ("dtype", value.str, value.name)
        return
    if value.dtype.hasobject or value.nbytes > ARRAY_BYTES_MAX:
        raise _NoKeyError
    data = np.ascontiguousarray(value).tobytes()
    yield ("array", value.dtype.name, value.shape, hash_bytes(data))
