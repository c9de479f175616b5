"""Kernels from source to results, for tests of what only the front end makes."""

from __future__ import annotations

from collections.abc import Mapping

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import find_dtype
from nki_agent.nki.current.tracing import ArgumentSpec
from nki_agent.program.validate import check_program
from nki_agent.sim.execute import Executable, RunResult, compile_program
from tests.kernels import body, traced
from tests.sim.build import Array


def compiled(
    text: str,
    arrays: Mapping[str, Array],
    *,
    cores: int = 1,
    target: Target = Target.TRN2,
    steps_max: int = 1_000_000,
    memory_bytes_max: int = 2**30,
) -> Executable:
    """An Executable of the kernel with this body."""
    specs = []
    for name, array in arrays.items():
        dtype = find_dtype(array.dtype)
        assert dtype is not None
        specs.append(ArgumentSpec(name, array.shape, dtype))
    source = body(text, params=", ".join(arrays))
    if cores > 1:
        source += f"\n\ngrid = ({cores},)\n"
    program, chip = traced(source, specs, target=target), load_chip(target)
    findings = check_program(program, chip)
    assert findings == [], [str(f) for f in findings]
    return compile_program(program, chip, steps_max=steps_max, memory_bytes_max=memory_bytes_max)


def run_kernel(
    text: str, arrays: Mapping[str, Array], *, cores: int = 1, target: Target = Target.TRN2
) -> RunResult:
    """What the kernel with this body gives."""
    return compiled(text, arrays, cores=cores, target=target).run(arrays)


def failed(
    text: str,
    arrays: Mapping[str, Array],
    *,
    cores: int = 1,
    target: Target = Target.TRN2,
    steps_max: int = 1_000_000,
) -> Diagnostic:
    """Why the run of the kernel with this body ends early."""
    executable = compiled(text, arrays, cores=cores, target=target, steps_max=steps_max)
    try:
        executable.run(arrays)
    except KernelError as error:
        return error.diagnostic
    raise AssertionError("the run came to its end")


def line_of(text: str, part: str) -> int:
    """The line of the kernel file on which this part of its body first stands."""
    source = body(text)
    return source[: source.index(part)].count("\n") + 1
