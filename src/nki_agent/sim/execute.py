"""Compiles a Program into a list of NumPy calls, once, and runs it for many seeds.

Law: a run depends on the arrays that are passed in and on nothing else, no earlier run included;
arrays are never modified. Values never depend on where a tensor is placed, but for tensors whose
addresses the kernel gave.
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
from nki_agent.program.records import NO_TRIPS, Program, Trips
from nki_agent.sim.blocks import count_calls
from nki_agent.sim.border import load_port, take_port
from nki_agent.sim.calls import run_all
from nki_agent.sim.compiler import Compiler
from nki_agent.sim.runner import STEPS_MAX, Runner

Array = npt.NDArray[Any]

MEMORY_BYTES_MAX = 16 * 2**30
"""Buffers that one execution may have."""
FINDINGS_MAX = 20
"""Findings kept of one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run gives; the arrays belong to the caller."""

    outputs: tuple[Array, ...]
    """Returned tensors in order, in their own shape and format."""
    updated: Mapping[str, Array]
    """Arguments that instructions write, as they are in the end."""
    findings: tuple[Diagnostic, ...]
    """Warnings about values, and errors in the order of two cores; empty unless checked."""
    printed: tuple[tuple[str, Array], ...] = ()
    """Prefix and tensor of each `nl.device_print`, in order."""
    num_unprinted: int = 0
    """Prints that are left out, since those before them fill the room that a run has."""
    trips: Trips = NO_TRIPS
    """How often the loops went round, and what run-time indices moved."""


class Executable:
    """A compiled Program. One run at a time: its buffers are its own."""

    def __init__(self, program: Program, compiler: Compiler, *, steps_max: int) -> None:
        """Take what the compiler made."""
        self._program = program
        self._cores = compiler.cores
        self._prologue = compiler.tenancy.prologue
        self._steps_max = steps_max
        tenancy = compiler.tenancy
        self._inputs, self._results = tenancy.inputs, tenancy.results
        self._updated = tenancy.updated

    @property
    def num_calls(self) -> int:
        """Calls of one run in which each loop goes round once."""
        return len(self._prologue) + sum(count_calls(core.block) for core in self._cores)

    def run(self, arrays: Mapping[str, Array], *, with_checks: bool = True) -> RunResult:
        """Execute on one set of arguments, by name.

        Checks look for values with which the chip does not compute as a kernel may expect. They
        cost a pass over the data that they concern, so run them on one seed.

        Raises:
            ValueError: an argument is missing, or has another shape or format than was traced.
            KernelError: an index out of bounds, cores that wait for ever, a loop without an end, a
                register that is read before it is written.
        """
        for port in self._inputs:
            load_port(port, arrays)
        found: dict[tuple[str, int], Diagnostic] = {}

        def report(stack: int, finding: Diagnostic) -> None:
            if len(found) < FINDINGS_MAX:
                found.setdefault((finding.code, stack), finding)

        runner = Runner(
            self._program,
            self._cores,
            report=report if with_checks else None,
            steps_max=self._steps_max,
        )
        with np.errstate(all="ignore"):
            run_all(self._prologue)
            runner.run()
        shapes = [result.shape for result in self._program.results]
        return RunResult(
            outputs=tuple(map(take_port, self._results, shapes)),
            updated={port.name: take_port(port, port.tensor.shape) for port in self._updated},
            findings=tuple(
                msgspec.structs.replace(finding, where=self._program.stack(stack))
                for (_, stack), finding in found.items()
            ),
            printed=tuple(p for core in self._cores for p in core.machine.printout.kept),
            num_unprinted=sum(core.machine.printout.num_dropped for core in self._cores),
            trips=runner.trips,
        )


def compile_program(
    program: Program,
    chip: ChipSpec,
    *,
    memory_bytes_max: int = MEMORY_BYTES_MAX,
    steps_max: int = STEPS_MAX,
    is_precise: bool = True,
) -> Executable:
    """Compile a Program that `program.validate.check_program` accepts.

    If not `is_precise`, bfloat16, float16 and 8-bit floats are kept as float32, and what goes out
    in them is float32. Tensors that are seen as several dtypes keep their bytes and are rounded.

    Raises:
        KernelError: it holds something that is not modelled, or too much memory (NK114).
    """
    compiler = Compiler(program, chip, memory_bytes_max=memory_bytes_max)
    compiler.tenancy.is_precise = is_precise
    compiler.compile()
    return Executable(program, compiler, steps_max=steps_max)
