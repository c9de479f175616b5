"""Kernels on several ranks at once: `nki.simulate(kernel).ranks([(x0,), (x1,)])`.

Law: all ranks run one trace, so their arguments have the same shapes, dtypes and plain values. Each
rank has memory of its own; arguments that the kernel writes are updated in place, rank by rank.
A trace is not used again. Never used by `verify`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.nki.current.jit import RUNTIME, Kernel
from nki_agent.nki.current.tracing import ArgumentSpec
from nki_agent.runtime.arrays import ArrayArgument
from nki_agent.runtime.launch import (
    bind_arguments,
    hand_back,
    prepare_kernel,
    print_run,
    report_findings,
)
from nki_agent.runtime.settings import read_settings

Bound = tuple[dict[str, ArrayArgument], list[ArgumentSpec]]


def simulate_ranks(kernel: Any, arguments_by_rank: Sequence[Any]) -> list[Any]:
    """Run a kernel on one rank for each tuple of arguments (or mapping, by name).

    Gives each rank's result, in the form of its arguments.

    Raises:
        KernelError: a fault of the kernel, or arguments that differ in more than their elements.
    """
    wrapped = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    settings = read_settings()
    bound = [_bind(wrapped, rank, given) for rank, given in enumerate(arguments_by_rank)]
    specs = _common_specs(bound)
    ready = prepare_kernel(wrapped, specs, settings, ranks=len(bound))
    report_findings(ready.findings)
    runs = ready.executable.run_ranks(
        [{n: np.ascontiguousarray(a.values) for n, a in arrays.items()} for arrays, _ in bound]
    )
    for rank, run in enumerate(runs):
        print_run(run, f"[rank {rank}]")
    report_findings(dict.fromkeys(finding for run in runs for finding in run.findings))
    return [hand_back(run, arrays) for run, (arrays, _) in zip(runs, bound, strict=True)]


@contextmanager
def launching_ranks() -> Iterator[None]:
    """Let kernels be launched on several ranks inside the block."""
    before = RUNTIME.rank_launcher
    RUNTIME.rank_launcher = simulate_ranks
    try:
        yield
    finally:
        RUNTIME.rank_launcher = before


def _bind(kernel: Kernel, rank: int, given: Any) -> Bound:
    if isinstance(given, Mapping):
        return bind_arguments(kernel, (), dict(given))
    if isinstance(given, tuple | list):
        return bind_arguments(kernel, tuple(given), {})
    raise _refused(
        f"arguments of rank {rank}", type(given).__name__, "a tuple, or a dict by parameter"
    )


def _common_specs(bound: Sequence[Bound]) -> list[ArgumentSpec]:
    if not bound:
        raise _refused("arguments of the ranks", "none", "one tuple of arguments for each rank")
    first = bound[0][1]
    for rank, (_, specs) in enumerate(bound):
        for mine, other in zip(first, specs, strict=False):
            if mine != other:
                what = f"argument `{other.name}` of rank {rank}"
                raise _refused(what, _describe(other), f"{_describe(mine)}, as of rank 0")
        if len(specs) != len(first):
            got, limit = len(specs), f"{len(first)} arguments, as of rank 0"
            raise _refused(f"arguments of rank {rank}", str(got), limit)
    return first


def _describe(spec: ArgumentSpec) -> str:
    if spec.shape is None:
        return f"`{spec.name}` = {spec.value!r}"[:60]
    return f"`{spec.name}` {spec.dtype} {list(spec.shape)}"


def _refused(what: str, got: str, limit: str) -> KernelError:
    hint = "all ranks run one kernel on arrays of one shape: `.ranks([(x0,), (x1,)])`"
    return KernelError(Diagnostic(code="NK112", what=what, got=got, limit=limit, hint=hint))
