"""Runs a kernel file on tensors without values and hands back a Program or what stopped it.

Laws: nothing of a task but shapes, dtypes and static values comes in; only a `TraceReply` goes out;
an error of the kernel is a finding with the kernel's file and line, never a traceback.
In the sandbox this is all that runs beside the kernel; its checks exist for the messages.
"""

from __future__ import annotations

import builtins
import importlib.abc
import importlib.machinery
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

import msgspec

from nki_agent.base.diagnostic import Diagnostic, Frame, Stack
from nki_agent.base.errors import KernelError
from nki_agent.chip.spec import DEFAULT_TARGET, Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.nki.current.allocation import whole_view
from nki_agent.nki.current.jit import Kernel
from nki_agent.nki.current.modules import installed, withhold
from nki_agent.nki.current.recorder import STATE, Recorder, require_generation
from nki_agent.nki.current.tensor import NkiTensor
from nki_agent.nki.current.wording import name_in_words
from nki_agent.program.records import (
    Access,
    Init,
    Launch,
    Program,
    Result,
    StaticValue,
    Tensor,
    TraceReply,
)
from nki_agent.program.stored import encode_reply
from nki_agent.program.validate import written_arguments

ENTRY_NAME = "kernel"
MODULE_NAME = "kernel_file"
CODES_KEPT = 8
VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
LNC_GENERATION = 3
"""First generation whose logical cores may be two physical ones (NKI, "Logical Neuron Cores")."""


class ArgumentSpec(msgspec.Struct, frozen=True, array_like=True):
    """One argument of the entry: a tensor's shape and dtype, or a static value."""

    name: str
    shape: tuple[int, ...] | None = None
    dtype: DType | None = None
    value: StaticValue = None
    access: Access = Access.READ


class TraceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a tracing process is given."""

    files: dict[str, str]
    main: str
    arguments: tuple[ArgumentSpec, ...]
    target: Target
    entry: str | None = None
    withheld: frozenset[str] = frozenset()
    """Functions of `nki.language` that a kernel may not call, under whatever name; NK119 if so."""


# Read here, since a locked process reads no files.
CHIPS = {target: load_chip(target) for target in Target}
_REQUEST = msgspec.msgpack.Decoder(TraceRequest)


def encode_request(request: TraceRequest) -> bytes:
    """The bytes of a request for `trace_bytes`."""
    return msgspec.msgpack.encode(request)


def trace_bytes(payload: bytes) -> bytes:
    """Trace an encoded request and encode the reply: the sandbox's entry."""
    reply = trace(_REQUEST.decode(payload))
    try:
        return encode_reply(reply)
    except (OverflowError, TypeError, UnicodeEncodeError) as error:
        return encode_reply(TraceReply(program=None, findings=(_unstorable(error),)))


def trace_source(
    source: str, arguments: Sequence[ArgumentSpec], *, target: Target = DEFAULT_TARGET
) -> TraceReply:
    """Trace the text of one kernel file in this process; for our own kernels and tests."""
    return trace(
        TraceRequest(
            files={"kernel.py": source},
            main="kernel.py",
            arguments=tuple(arguments),
            target=target,
        )
    )


def trace(request: TraceRequest) -> TraceReply:
    """Trace a request in this process."""
    with installed(request.target) as modules, _helpers(request.files, request.main):
        withhold(modules, request.withheld)
        return _answer(lambda: _trace_files(request), request.files)


def trace_function(
    kernel: Kernel, arguments: Sequence[ArgumentSpec], *, target: Target
) -> TraceReply:
    """Trace a kernel object that exists in this process (the user's own code)."""
    launch = Launch() if kernel.lnc == 1 else Launch(grid=(kernel.lnc,), cores=kernel.lnc)
    script = kernel.function.__code__.co_filename
    return _answer(lambda: run_entry(kernel, arguments, target, launch), {}, script)


def _answer(make: Callable[[], Program], files: Mapping[str, str], script: str = "") -> TraceReply:
    try:
        return TraceReply(program=make(), findings=())
    except KernelError as error:
        return TraceReply(program=None, findings=(_in_words(error.diagnostic, files),))
    except (MemoryError, RecursionError) as error:
        return TraceReply(program=None, findings=(_too_much(error, files or (script,)),))
    except BaseException as error:
        finding = _raised(error, files)
        if finding is None:
            raise
        return TraceReply(program=None, findings=(finding,))
    finally:
        STATE.recorder = None


def _in_words(diagnostic: Diagnostic, files: Mapping[str, str]) -> Diagnostic:
    recorder = STATE.recorder
    # A kernel may raise one of its own with anything in it.
    if not (isinstance(recorder, Recorder) and isinstance(diagnostic, Diagnostic)):
        return diagnostic
    return name_in_words(diagnostic, recorder.tensors, recorder.makers(), files)


def _unstorable(error: Exception) -> Diagnostic:
    return Diagnostic(
        code="NK109",
        what=f"a number or a name of the kernel has no place in a Program: {error}",
        hint="integers have 64 bits; names are Unicode text",
    )


def _too_much(error: BaseException, files: Collection[str]) -> Diagnostic:
    is_memory = isinstance(error, MemoryError)
    what = "memory" if is_memory else "recursion depth"
    return Diagnostic(
        code="NK111",
        what=f"tracing ran out of {what}",
        where=_where(error, files)[-1:],
        hint="use larger tiles and fewer instructions" if is_memory else "let the recursion end",
    )


def _raised(error: BaseException, files: Mapping[str, str]) -> Diagnostic | None:
    """The finding for an error of kernel code; None for one that is ours."""
    where = _where(error, files)
    if isinstance(error, SyntaxError) and error.filename in files:
        where = (Frame(str(error.filename), error.lineno or 0, ""),)
        return Diagnostic(code="NK101", what=f"syntax error: {error.msg}", where=where)
    if not where:
        return None
    return Diagnostic(
        code="NK109",
        what=f"the kernel raised {_text_of(error)}",
        where=where,
        hint="shapes and dtypes are known while tracing, values are not",
    )


def _text_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - the text is the kernel's own code
        return "an error that cannot be printed"


def _where(error: BaseException, files: Collection[str]) -> Stack:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
    return tuple(Frame(f.filename, f.lineno or 0, f.name) for f in frames)


def _trace_files(request: TraceRequest) -> Program:
    source = request.files[request.main]
    module = ModuleType(MODULE_NAME)
    module.__file__ = request.main
    sys.modules[MODULE_NAME] = module
    exec(_compile(source, request.main), module.__dict__)
    kernel = _find_entry(module, request.entry)
    launch = _launch_of(module, request.arguments)
    return run_entry(kernel, request.arguments, request.target, launch)


@lru_cache(maxsize=CODES_KEPT)
def _compile(source: str, name: str) -> CodeType:
    """The code of a file; a kernel is traced at one choice of sizes after the other."""
    return compile(source, name, "exec")


def _find_entry(module: ModuleType, entry: str | None) -> Kernel:
    kernels = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Kernel) and value.__module__ in (MODULE_NAME, module.__name__)
    }
    wanted = ENTRY_NAME if entry is None else entry
    if wanted in kernels:
        return kernels[wanted]
    distinct = {id(k): k for k in kernels.values()}
    if entry is None and len(distinct) == 1:
        return next(iter(distinct.values()))
    found = ", ".join(f"`{n}`" for n in kernels) or "no `@nki.jit` function"
    raise KernelError(
        Diagnostic(
            code="NK102",
            what="entry of the kernel file",
            got=found,
            limit=f"one `@nki.jit` function, or one named `{wanted}`",
            where=(Frame(str(module.__file__), 1, ""),),
            hint=f"name the entry `{wanted}`",
        )
    )


def _launch_of(module: ModuleType, arguments: Sequence[ArgumentSpec]) -> Launch:
    grid = getattr(module, "grid", None)
    if callable(grid):
        grid = grid(*(a.shape if a.shape is not None else a.value for a in arguments))
    if grid is None:
        return Launch()
    cores = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
    if cores in ((1,), (2,)):
        return Launch(grid=cores, cores=cores[0])
    raise KernelError(
        Diagnostic(
            code="NK116",
            what="`grid` of the kernel file",
            got=str(cores)[:60] if all(type(n) is int for n in cores) else "no tuple of integers",
            limit="(1,) or (2,)",
            where=(Frame(str(module.__file__), 1, ""),),
            hint="remove `grid`; loop over tiles inside of the kernel",
        )
    )


def run_entry(
    kernel: Kernel, arguments: Sequence[ArgumentSpec], target: Target, launch: Launch
) -> Program:
    """Call a kernel on fresh tensors and collect what it recorded."""
    recorder = Recorder(target=target, kernel=kernel.__name__)
    recorder.launch = launch
    STATE.recorder = recorder
    if launch.cores > 1:
        require_generation("a launch on 2 cores (LNC2)", LNC_GENERATION)
    recorder.start_core(0)
    values = [_argument_value(recorder, spec) for spec in arguments]
    _require_signature(kernel, arguments)
    results = _results(kernel, kernel.function(*values), arguments)
    for core in range(1, launch.cores):
        recorder.start_core(core)
        _require_same(kernel, results, _results(kernel, kernel.function(*values), arguments))
    STATE.recorder = None
    program = recorder.finish(results)
    if not results and not written_arguments(program):
        _bad_result(_first_line(kernel), 0, "NoneType")
    return program


def _require_same(kernel: Kernel, first: tuple[Result, ...], other: tuple[Result, ...]) -> None:
    if first != other:
        raise KernelError(
            Diagnostic(
                code="NK112",
                what="results of the two cores",
                got="different tensors",
                limit="the same `shared_hbm` tensors",
                where=_first_line(kernel),
                hint="return the same tensors whatever `nl.program_id(0)` is",
            )
        )


def _argument_value(recorder: Recorder, spec: ArgumentSpec) -> object:
    if spec.shape is None or spec.dtype is None:
        recorder.add_argument(spec.name, None, spec.value, spec.access)
        return spec.value
    stack = recorder.stack_id(None)
    record = Tensor(spec.name, Memory.HBM, spec.shape, spec.dtype, Init.ARGUMENT, stack)
    number = recorder.add_argument(spec.name, record, None, spec.access)
    assert number is not None
    return whole_view(number, spec.name, Memory.HBM, spec.shape, spec.dtype)


def _require_signature(kernel: Kernel, arguments: Sequence[ArgumentSpec]) -> None:
    if _surely_takes(kernel.function, len(arguments)):
        return
    signature = inspect.signature(kernel.function)
    where = _first_line(kernel)
    try:
        signature.bind(*arguments)
    except TypeError as error:
        described = ", ".join(
            a.name if a.shape is None else f"{a.name} {list(a.shape)} {a.dtype}" for a in arguments
        )
        raise KernelError(
            Diagnostic(
                code="NK112",
                what=f"`{kernel.__name__}{signature}` does not take the task's arguments ({error})",
                limit=f"called with ({described}), in this order",
                where=where,
                hint="forward inputs come first, then parameters and buffers",
            )
        ) from error


def _surely_takes(function: object, num_arguments: int) -> bool:
    """Whether a plain function takes so many positional arguments; `inspect` is slow at first."""
    if not isinstance(function, FunctionType) or function.__dict__:
        return False
    code, defaults = function.__code__, function.__defaults__ or ()
    is_plain = not code.co_kwonlyargcount and not code.co_flags & VARIADIC
    return is_plain and code.co_argcount - len(defaults) <= num_arguments <= code.co_argcount


def _results(
    kernel: Kernel, returned: object, arguments: Sequence[ArgumentSpec]
) -> tuple[Result, ...]:
    where = _first_line(kernel)
    updates = {a.name for a in arguments if a.access is not Access.READ}
    if returned is None and updates:
        return ()  # What it writes into its arguments is what it gives.
    items = returned if isinstance(returned, tuple | list) else (returned,)
    results = []
    for number, item in enumerate(items):
        if not isinstance(item, NkiTensor):
            _bad_result(where, number, type(item).__name__)
        memory = item._storage.memory
        allowed = memory is Memory.SHARED_HBM or (memory is Memory.HBM and item.name in updates)
        whole = item.size * item.dtype.itemsize == item._storage.num_bytes
        if not allowed or not whole or not item.is_contiguous() or item.offset:
            kind = "a part of a tensor" if allowed else f"tensor `{item.name}` in {item.buffer}"
            _bad_result(where, number, kind, shape=None if allowed else item.shape)
        results.append(Result(item._tensor, item.shape))
    return tuple(results)


def _first_line(kernel: Kernel) -> Stack:
    code = kernel.function.__code__
    return (Frame(code.co_filename, code.co_firstlineno, kernel.__name__),)


def _bad_result(
    where: Stack, number: int, got: str, *, shape: tuple[int, ...] | None = None
) -> NoReturn:
    hint = "copy the result there with `nisa.dma_copy` and return it"
    if shape is not None:
        made = f"nl.ndarray({shape}, ..., buffer=nl.shared_hbm)"
        hint = f"allocate it as `{made}`; {hint.replace('the result', 'tiles')}"
    raise KernelError(
        Diagnostic(
            code="NK112",
            what=f"result {number} of the kernel",
            got=got,
            limit="a whole tensor made with `nl.ndarray(..., buffer=nl.shared_hbm)`",
            where=where,
            hint=hint,
        )
    )


def packages_of(modules: Iterable[str]) -> set[str]:
    """Every package that these modules lie in."""
    parts = [name.split(".") for name in modules]
    return {".".join(part[:end]) for part in parts for end in range(1, len(part))}


class _HelperFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports helper modules from the request's files; nothing is read from disk."""

    def __init__(self, files: Mapping[str, str], main: str) -> None:
        self._modules = {
            name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
            for name in files
            if name != main and name.endswith(".py")
        }
        self._packages = packages_of(self._modules)
        self._files = files

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in self._modules or fullname in self._packages:
            package = fullname in self._packages
            return importlib.machinery.ModuleSpec(fullname, self, is_package=package)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = self._modules.get(module.__name__)
        if name is not None:
            module.__file__ = name
            exec(_compile(self._files[name], name), module.__dict__)

    def names(self) -> set[str]:
        """Modules that it can import."""
        return set(self._modules) | self._packages


@contextmanager
def _helpers(files: Mapping[str, str], main: str) -> Iterator[None]:
    finder = _HelperFinder(files, main)
    sys.meta_path.insert(0, finder)
    output = builtins.print
    builtins.print = _print_nothing
    try:
        yield
    finally:
        builtins.print = output
        sys.meta_path.remove(finder)
        for name in (MODULE_NAME, *finder.names()):
            sys.modules.pop(name, None)
        linecache.clearcache()


def _print_nothing(*args: Any, **kwargs: Any) -> None:
    """`print` in a kernel is a compile-time message; its text is untrusted and goes nowhere."""
