"""Runs kernels of tests on arrays: trace, validation, memory pass, simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.diagnostic import Severity
from nki_agent.chip.spec import DEFAULT_TARGET, Target, load_chip
from nki_agent.isa.dtype import find_dtype
from nki_agent.memory.placement import place_program
from nki_agent.nki.current.tracing import ArgumentSpec
from nki_agent.program.validate import check_program
from nki_agent.sim.execute import compile_program
from tests.kernels import traced

Array = NDArray[Any]


def run_kernel(source: str, *, target: Target = DEFAULT_TARGET, **arrays: Array) -> Array:
    """The first output of a kernel that must run without an error."""
    specs = [
        ArgumentSpec(name, array.shape, find_dtype(array.dtype)) for name, array in arrays.items()
    ]
    program = traced(source, specs, target=target)
    chip = load_chip(target)
    assert check_program(program, chip) == []
    findings = place_program(program, chip)[1]
    assert [str(f) for f in findings if f.severity is Severity.ERROR] == []
    return compile_program(program, chip).run(arrays).outputs[0]


def rows(values: Array) -> Array:
    """Values as the rows of an [4, n] tile, for kernels that work in 4 partitions."""
    return np.ascontiguousarray(np.broadcast_to(values, (4, len(values))))
