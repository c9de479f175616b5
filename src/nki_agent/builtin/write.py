"""From a task to kernel source, in one call.

Law: the same task, target and demand give the same text. Nothing is run and nothing is read from
disk.
"""

from __future__ import annotations

from nki_agent.builtin.capture import Captured, capture_task
from nki_agent.builtin.plan import Argument, Plan
from nki_agent.builtin.planner import plan_kernel
from nki_agent.builtin.printer import print_plan
from nki_agent.builtin.rows import Demand
from nki_agent.chip.spec import Target, load_chip
from nki_agent.task.task import StaticArgument, Task, TensorArgument


def write_kernel(task: Task, target: Target, *, demand: Demand | None = None) -> str:
    """The kernel for a task.

    Raises:
        UnsupportedError: what cannot be written, why, and what to try.
    """
    captured = capture_task(task)
    plan = make_plan(task, captured, target, demand=demand or Demand())
    return print_plan(
        plan, title=f"Kernel for the task `{task.id}`, by the built-in author of nki-agent."
    )


def make_plan(task: Task, captured: Captured, target: Target, *, demand: Demand) -> Plan:
    """The plan for a captured task."""
    return plan_kernel(
        captured,
        arguments=_arguments(task),
        result_names=tuple(output.name for output in task.outputs),
        updates=task.updates,
        chip=load_chip(target),
        demand=demand,
    )


def _arguments(task: Task) -> tuple[Argument, ...]:
    found = []
    for index, argument in enumerate(task.arguments):
        if isinstance(argument, StaticArgument):
            found.append(Argument(name=argument.name, shape=None))
            continue
        shapes = []
        for shape_set in task.shape_sets:
            same = shape_set.arguments[index]
            assert isinstance(same, TensorArgument)
            shapes.append(same.shape)
        found.append(
            Argument(
                name=argument.name,
                shape=tuple(zip(*shapes, strict=True)),
                dtype=argument.dtype,
            )
        )
    return tuple(found)
