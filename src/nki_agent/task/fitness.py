"""Says beside a verdict that its task is unfit to judge kernels by, where that is cheap to find.

Law: it changes no verdict. A task whose lint would take longer than about a second is not linted
here: `nki-agent task lint` does it whatever it takes.
"""

from __future__ import annotations

from dataclasses import replace

from nki_agent.task.lint import lint_task
from nki_agent.task.task import ShapeSet, Task

WORK_MAX = 2**27
"""Elements that the runs of the reference in a lint may touch."""
RUNS = 16
"""Runs of the reference in a lint, beside one for each tensor."""
FLOPS_PER_ELEM = 16
"""FLOPs of a matmul in float64 that take as long as one element of other operations."""


def with_fitness(task: Task) -> Task:
    """The task with the findings of its lint; as it is where that would take long."""
    if not is_cheap(task.dev):
        return task
    found = (" ".join(str(finding).split()) for finding in lint_task(task))
    return replace(task, unfit=tuple(f"unfit to judge kernels by: {text}" for text in found))


def is_cheap(shapes: ShapeSet) -> bool:
    """Whether a lint at these shapes takes about a second at most."""
    elems = sum(t.num_elems for t in shapes.tensors) + sum(o.num_elems for o in shapes.outputs)
    work = elems + shapes.work.matmul_flops // FLOPS_PER_ELEM
    return work * (RUNS + len(shapes.tensors)) <= WORK_MAX
