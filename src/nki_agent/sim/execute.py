"""Compiles a Program into a list of NumPy calls, once, and runs it for many seeds.

Law: a run depends on the arrays that are passed in and on nothing else, no earlier run included;
arrays are never modified. Values never depend on where a tensor is placed, but for tensors whose
addresses the kernel gave.
Not modelled: loops that a dialect keeps, run-time offsets, several cores: they raise NK114.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.chip.spec import ChipSpec
from nki_agent.program.records import Program
from nki_agent.sim.border import load_port, take_port
from nki_agent.sim.calls import run_checked, run_plain
from nki_agent.sim.compiler import Compiler

Array = npt.NDArray[Any]

MEMORY_BYTES_MAX = 16 * 2**30
"""Buffers that one execution may have."""
FINDINGS_MAX = 20
"""Warnings kept of one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run gives; the arrays belong to the caller."""

    outputs: tuple[Array, ...]
    """Returned tensors in order, in their own shape and format."""
    updated: Mapping[str, Array]
    """Arguments that instructions write, as they are in the end."""
    findings: tuple[Diagnostic, ...]
    """Warnings about values; empty unless the run was checked."""
    printed: tuple[tuple[str, Array], ...] = ()
    """Prefix and tensor of each `nl.device_print`, in order."""
    num_unprinted: int = 0
    """Prints that are left out, since those before them fill the room that a run has."""


class Executable:
    """A compiled Program. One run at a time: its buffers are its own."""

    def __init__(self, program: Program, compiler: Compiler) -> None:
        """Take what the compiler made."""
        self._program = program
        self._calls = compiler.calls
        self._machine = compiler.machine
        tenancy = compiler.tenancy
        self._inputs, self._results = tenancy.inputs, tenancy.results
        self._updated = tenancy.updated

    @property
    def num_calls(self) -> int:
        """NumPy calls of one run."""
        return len(self._calls.prologue) + len(self._calls.runs)

    def run(self, arrays: Mapping[str, Array], *, with_checks: bool = True) -> RunResult:
        """Execute on one set of arguments, by name.

        Checks look for values with which the chip does not compute as a kernel may expect. They
        cost a pass over the data that they concern, so run them on one seed.

        Raises:
            ValueError: an argument is missing, or has another shape or format than was traced.
        """
        for port in self._inputs:
            load_port(port, arrays)
        self._machine.reset()
        findings: tuple[Diagnostic, ...] = ()
        with np.errstate(all="ignore"):
            if with_checks and self._calls.checked:
                findings = self._run_checked()
            else:
                run_plain(self._calls)
        shapes = [result.shape for result in self._program.results]
        return RunResult(
            outputs=tuple(map(take_port, self._results, shapes)),
            updated={port.name: take_port(port, port.tensor.shape) for port in self._updated},
            findings=findings,
            printed=tuple(self._machine.printout.kept),
            num_unprinted=self._machine.printout.num_dropped,
        )

    def _run_checked(self) -> tuple[Diagnostic, ...]:
        first: dict[tuple[str, int], Diagnostic] = {}
        for stack, found in run_checked(self._calls):
            if len(first) < FINDINGS_MAX:
                first.setdefault((found.code, stack), found)
        return tuple(
            msgspec.structs.replace(found, where=self._program.stack(stack))
            for (_, stack), found in first.items()
        )


def compile_program(
    program: Program, chip: ChipSpec, *, memory_bytes_max: int = MEMORY_BYTES_MAX
) -> Executable:
    """Compile a Program that `program.validate.check_program` accepts.

    Raises:
        KernelError: it holds something that is not modelled, or too much memory (NK114).
    """
    compiler = Compiler(program, chip, memory_bytes_max=memory_bytes_max)
    compiler.compile()
    return Executable(program, compiler)
