"""What happens when a kernel is called with arrays: trace, lay out memory, simulate, hand back.

Law: each call traces anew, so a kernel that reads a changed global sees the change. Arguments that
the kernel writes are updated in place, as on the device. A fault raises `KernelError`; a warning is
a `KernelWarning`. Never used by `verify`: here kernel code and data share the user's own process.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.base.errors import KernelError, UsageError
from nki_agent.check.source import check_source
from nki_agent.chip.spec import DEFAULT_TARGET, Target, find_target, load_chip
from nki_agent.memory.placement import place_program
from nki_agent.nki.current.jit import RUNTIME, Kernel
from nki_agent.nki.current.tracing import ArgumentSpec, trace_function
from nki_agent.program.records import Access, Program
from nki_agent.program.validate import check_program
from nki_agent.runtime.arrays import ArrayArgument, is_array, make_result, read_array
from nki_agent.sim.execute import compile_program

TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
"""The vendor's way to name the chip."""
HOST_CODES = ("NK102", "NK107", "NK113", "NK903")
"""Findings about the file around a kernel, which here is the user's own program."""


class KernelWarning(UserWarning):
    """A finding that does not stop a kernel."""


def current_target() -> Target:
    """The chip that calls are simulated for.

    Raises:
        UsageError: The environment names an unknown one.
    """
    name = os.environ.get(TARGET_VARIABLE)
    if not name:
        return DEFAULT_TARGET
    target = find_target(name)
    if target is None:
        known = ", ".join(Target)
        raise UsageError(f"{TARGET_VARIABLE}={name} names no target", hint=f"choose one of {known}")
    return target


@contextmanager
def launching() -> Iterator[None]:
    """Let kernels be called with arrays inside the block."""
    before = RUNTIME.launcher
    RUNTIME.launcher = launch
    try:
        yield
    finally:
        RUNTIME.launcher = before


def launch(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a kernel on arrays; results come in the form of the arguments."""
    target = current_target()
    _report(_check_own_source(kernel, target))
    arguments, specs = _bind(kernel, args, kwargs)
    reply = trace_function(kernel, specs, target=target)
    _report(reply.findings)
    assert reply.program is not None
    return _execute(reply.program, target, arguments)


def _bind(
    kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[dict[str, ArrayArgument], list[ArgumentSpec]]:
    bound = inspect.signature(kernel.function).bind(*args, **kwargs)
    bound.apply_defaults()
    arrays: dict[str, ArrayArgument] = {}
    specs = []
    for name, value in bound.arguments.items():
        if is_array(value):
            array = arrays[name] = read_array(name, value)
            shape = tuple(int(n) for n in array.values.shape)
            specs.append(ArgumentSpec(name, shape, array.dtype, access=Access.UPDATE))
        else:
            plain = value.item() if isinstance(value, np.generic) else value
            specs.append(ArgumentSpec(name, value=plain))
    return arrays, specs


def _execute(program: Program, target: Target, arguments: dict[str, ArrayArgument]) -> Any:
    chip = load_chip(target)
    _report(check_program(program, chip))
    _report(place_program(program, chip)[1])
    values = {name: np.ascontiguousarray(a.values) for name, a in arguments.items()}
    run = compile_program(program, chip).run(values)
    _report(run.findings)
    for name, updated in run.updated.items():
        arguments[name].values[...] = updated
    as_torch = any(a.is_torch for a in arguments.values())
    results = tuple(make_result(output, as_torch=as_torch) for output in run.outputs)
    return results[0] if len(results) == 1 else results


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


def _report(findings: Iterable[Diagnostic]) -> None:
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise KernelError(finding)
        if finding.severity is Severity.WARNING:
            warnings.warn(str(finding), KernelWarning, stacklevel=3)
