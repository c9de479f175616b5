"""What happens when a kernel is called with arrays: trace, lay out memory, simulate, hand back.

Law: a call uses an earlier trace only where `reuse` has a key for it, so a kernel that reads a
changed global sees the change. Arguments that the kernel writes are updated in place, as on the
device. A fault raises `KernelError`; a warning is a `KernelWarning`. Never used by `verify`: here
kernel code and data share the user's own process.
"""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.base.errors import KernelError
from nki_agent.check.source import check_source
from nki_agent.chip.spec import Target, load_chip
from nki_agent.memory.placement import place_program
from nki_agent.nki.current.jit import RUNTIME, Kernel
from nki_agent.nki.current.tracing import ArgumentSpec, trace_function
from nki_agent.program.records import Access, Program
from nki_agent.program.validate import check_program
from nki_agent.runtime.arrays import (
    ArrayArgument,
    is_array,
    make_result,
    read_array,
    require_static,
)
from nki_agent.runtime.eager import watching
from nki_agent.runtime.reuse import Key, find_key, find_value_key
from nki_agent.runtime.settings import Settings, read_settings
from nki_agent.sim.execute import Executable, RunResult, compile_program

HOST_CODES = ("NK102", "NK107", "NK113", "NK903")
"""Findings about the file around a kernel, which here is the user's own program."""
KEPT_MAX = 8
"""Traces kept; each holds the buffers of an execution."""


class KernelWarning(UserWarning):
    """A finding that does not stop a kernel."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A traced kernel that can run, and the warnings of getting there."""

    executable: Executable
    findings: tuple[Diagnostic, ...]


@contextmanager
def launching(*, is_eager: bool = False) -> Iterator[None]:
    """Let kernels be called with arrays inside the block.

    With `is_eager`, tiles have values while a kernel runs, and every call traces anew.
    """
    before = RUNTIME.launcher
    RUNTIME.launcher = Launcher(is_eager=is_eager).launch
    try:
        yield
    finally:
        RUNTIME.launcher = before


class Launcher:
    """Calls kernels on arrays and keeps what it may use again."""

    def __init__(self, *, is_eager: bool = False) -> None:
        """Nothing is kept yet."""
        self._is_eager = is_eager
        self._kept: OrderedDict[Key, Ready] = OrderedDict()
        self._lock = threading.RLock()
        self.num_traces = 0

    def launch(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a kernel on arrays; results come in the form of the arguments."""
        settings = read_settings()
        arrays, specs = bind_arguments(kernel, args, kwargs)
        with self._lock:
            ready = self._prepare(kernel, specs, arrays, settings)
            report_findings(ready.findings)
            values = {name: np.ascontiguousarray(a.values) for name, a in arrays.items()}
            run = ready.executable.run(values)
        print_run(run)
        report_findings(run.findings)
        return hand_back(run, arrays)

    def _prepare(
        self,
        kernel: Kernel,
        specs: Sequence[ArgumentSpec],
        arrays: dict[str, ArrayArgument],
        settings: Settings,
    ) -> Ready:
        key = None if self._is_eager else _key(kernel, specs, settings)
        ready = None if key is None else self._kept.get(key)
        if ready is None:
            self.num_traces += 1
            with watching(arrays, settings, is_on=self._is_eager):
                ready = prepare_kernel(kernel, specs, settings)
        if key is not None:
            self._kept[key] = ready
            self._kept.move_to_end(key)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return ready


def _key(kernel: Kernel, specs: Sequence[ArgumentSpec], settings: Settings) -> Key | None:
    code = find_key(kernel)
    if code is None:
        return None
    arguments: list[object] = []
    for spec in specs:
        value = find_value_key(spec.value)
        if value is None:
            return None
        arguments.append((spec.name, spec.shape, spec.dtype, value))
    return (code, kernel.lnc, settings.target, settings.is_precise, tuple(arguments))


def bind_arguments(
    kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[dict[str, ArrayArgument], list[ArgumentSpec]]:
    """The arrays of a call by parameter, and what a trace needs to know of all arguments.

    Raises:
        KernelError: The arguments do not fit the parameters, or no kernel takes such values.
    """
    signature = inspect.signature(kernel.function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        finding = Diagnostic(
            code="NK112",
            what=f"call of kernel `{kernel.__name__}`: {error}",
            hint=f"its parameters are {signature}",
        )
        raise KernelError(finding) from error
    bound.apply_defaults()
    arrays: dict[str, ArrayArgument] = {}
    specs = []
    for name, value in bound.arguments.items():
        if is_array(value):
            array = arrays[name] = read_array(name, value)
            shape = tuple(int(n) for n in array.values.shape)
            specs.append(ArgumentSpec(name, shape, array.dtype, access=Access.UPDATE))
        else:
            require_static(name, value)
            plain = value.item() if isinstance(value, np.generic) else value
            specs.append(ArgumentSpec(name, value=plain))
    return arrays, specs


def prepare_kernel(
    kernel: Kernel, specs: Sequence[ArgumentSpec], settings: Settings, *, ranks: int = 1
) -> Ready:
    """Trace, check and compile; a fault raises."""
    found = _require(_check_own_source(kernel, settings.target))
    reply = trace_function(kernel, specs, target=settings.target)
    found += _require(reply.findings)
    assert reply.program is not None
    executable, warned = _make_executable(reply.program, settings, ranks)
    return Ready(executable, (*found, *warned))


def _make_executable(
    program: Program, settings: Settings, ranks: int
) -> tuple[Executable, tuple[Diagnostic, ...]]:
    """Check a Program as the judge does and compile it.

    Raises:
        KernelError: It breaks a rule.
    """
    chip = load_chip(settings.target)
    found = _require(check_program(program, chip))
    found += _require(place_program(program, chip)[1])
    return compile_program(program, chip, is_precise=settings.is_precise, ranks=ranks), found


def _check_own_source(kernel: Kernel, target: Target) -> list[Diagnostic]:
    """What the checker finds inside of the kernel function itself."""
    code = kernel.function.__code__
    path = Path(code.co_filename)
    if not path.is_file():
        return []
    try:
        lines, first = inspect.getsourcelines(kernel.function)
    except (OSError, TypeError):
        return []
    last = first + len(lines)
    text = path.read_text(encoding="utf-8", errors="replace")
    found = check_source({path.name: text}, path.name, target=target)
    return [
        f
        for f in found
        if f.code not in HOST_CODES and f.where and first <= f.where[-1].line < last
    ]


def hand_back(run: RunResult, arrays: dict[str, ArrayArgument]) -> Any:
    """Update the caller's arrays, and give the results in the caller's form."""
    for name, updated in run.updated.items():
        arrays[name].values[...] = updated
    as_torch = any(a.is_torch for a in arrays.values())
    results = tuple(make_result(output, as_torch=as_torch) for output in run.outputs)
    return results[0] if len(results) == 1 else results or None


def print_run(run: RunResult, *lead: str) -> None:
    """What the kernel prints goes to the script's stdout, with `lead` in front."""
    for prefix, array in run.printed:
        print(*lead, prefix, array)  # noqa: T201 - the kernel's own words
    if run.num_unprinted:
        text = f"note: {run.num_unprinted} more prints of the kernel are left out"
        print(text, file=sys.stderr)  # noqa: T201 - beside the script's own stderr


def _require(findings: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The findings; the first error raises."""
    found = tuple(findings)
    for finding in found:
        if finding.severity is Severity.ERROR:
            raise KernelError(finding)
    return found


def report_findings(findings: Iterable[Diagnostic]) -> None:
    """Warn of each finding; the first error raises."""
    for finding in _require(findings):
        if finding.severity is Severity.WARNING:
            warnings.warn(str(finding), KernelWarning, stacklevel=4)
