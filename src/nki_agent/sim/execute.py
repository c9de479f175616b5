"""Compiles a Program into a list of NumPy calls, once a rank, and runs it for many seeds.

Law: a run depends on the arrays that are passed in and on nothing else, no earlier run included;
arrays are never modified. Values never depend on where a tensor is placed, but for tensors whose
addresses the kernel gave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from nki_agent.sim.runner import STEPS_MAX, Runner, run_together

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


class _Rank:
    """One rank's compiled Program, with memory and registers of its own."""

    def __init__(self, program: Program, compiler: Compiler) -> None:
        self._program = program
        self.cores = compiler.cores
        self.prologue = compiler.tenancy.prologue
        tenancy = compiler.tenancy
        self._inputs, self._results = tenancy.inputs, tenancy.results
        self._updated = tenancy.updated
        self._found: dict[tuple[str, int], Diagnostic] = {}

    def begin(
        self, arrays: Mapping[str, Array], *, with_checks: bool, steps_max: int
    ) -> Callable[[], Runner]:
        """Take the arguments; what prepares the run."""
        for port in self._inputs:
            load_port(port, arrays)
        self._found = {}

        def prepare() -> Runner:
            report = self._report if with_checks else None
            runner = Runner(self._program, self.cores, report=report, steps_max=steps_max)
            run_all(self.prologue)
            return runner

        return prepare

    def _report(self, stack: int, finding: Diagnostic) -> None:
        if len(self._found) < FINDINGS_MAX:
            self._found.setdefault((finding.code, stack), finding)

    def end(self, runner: Runner) -> RunResult:
        """What its run has given."""
        shapes = [result.shape for result in self._program.results]
        return RunResult(
            outputs=tuple(map(take_port, self._results, shapes)),
            updated={port.name: take_port(port, port.tensor.shape) for port in self._updated},
            findings=tuple(
                msgspec.structs.replace(finding, where=self._program.stack(stack))
                for (_, stack), finding in self._found.items()
            ),
            printed=tuple(p for core in self.cores for p in core.machine.printout.kept),
            num_unprinted=sum(core.machine.printout.num_dropped for core in self.cores),
            trips=runner.trips,
        )


class Executable:
    """A compiled Program. One run at a time: its buffers are its own."""

    def __init__(self, program: Program, compilers: Sequence[Compiler], *, steps_max: int) -> None:
        """Take what the compilers made, one for each rank."""
        self._program = program
        self._ranks = [_Rank(program, compiler) for compiler in compilers]
        self._steps_max = steps_max

    @property
    def num_calls(self) -> int:
        """Calls of one rank in a run in which each loop goes round once."""
        rank = self._ranks[0]
        return len(rank.prologue) + sum(count_calls(core.block) for core in rank.cores)

    def run(self, arrays: Mapping[str, Array], *, with_checks: bool = True) -> RunResult:
        """Execute on one set of arguments, by name.

        Checks look for values with which the chip does not compute as a kernel may expect. They
        cost a pass over the data that they concern, so run them on one seed.

        Raises:
            ValueError: an argument is missing, or has another shape or format than was traced.
            KernelError: an index out of bounds, cores that wait for ever, a loop without an end, a
                register that is read before it is written, a collective with ranks that do not run.
        """
        (result,) = self.run_ranks((arrays,), with_checks=with_checks)
        return result

    def run_ranks(
        self, arrays_by_rank: Sequence[Mapping[str, Array]], *, with_checks: bool = True
    ) -> tuple[RunResult, ...]:
        """Execute on one set of arguments for each rank; see `run`.

        Raises:
            ValueError: also where there are more or fewer sets than ranks.
            KernelError: as `run`.
        """
        if len(arrays_by_rank) != len(self._ranks):
            raise ValueError(
                f"compiled for {len(self._ranks)} ranks, run with arguments for"
                f" {len(arrays_by_rank)}"
            )
        prepared = [
            rank.begin(arrays, with_checks=with_checks, steps_max=self._steps_max)
            for rank, arrays in zip(self._ranks, arrays_by_rank, strict=True)
        ]
        with np.errstate(all="ignore"):
            runners = [prepare() for prepare in prepared]
            run_together(self._program, runners)
        return tuple(rank.end(runner) for rank, runner in zip(self._ranks, runners, strict=True))


def compile_program(
    program: Program,
    chip: ChipSpec,
    *,
    memory_bytes_max: int = MEMORY_BYTES_MAX,
    steps_max: int = STEPS_MAX,
    is_precise: bool = True,
    ranks: int = 1,
) -> Executable:
    """Compile a Program that `program.validate.check_program` accepts.

    Each of `ranks` has memory of its own, which count together.

    If not `is_precise`, bfloat16, float16 and 8-bit floats are kept as float32, and what goes out
    in them is float32. Tensors that are seen as several dtypes keep their bytes and are rounded.

    Raises:
        KernelError: it holds something that is not modelled, or too much memory (NK114).
    """
    compilers = []
    for rank in range(ranks):
        compiler = Compiler(program, chip, memory_bytes_max=memory_bytes_max // ranks, rank=rank)
        compiler.tenancy.is_precise = is_precise
        compiler.compile()
        compilers.append(compiler)
    return Executable(program, compilers, steps_max=steps_max)
