"""From a task to kernel source, in one call.

Law: the same task, target and choices give the same text. Nothing is run and nothing is read from
disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.capture import Captured, capture_task
from nki_agent.builtin.choices import Choices
from nki_agent.builtin.clashes import find_clashes, rename
from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.plan import Argument, Plan
from nki_agent.builtin.planner import plan_kernel
from nki_agent.builtin.printer import print_plan
from nki_agent.chip.spec import Target, load_chip
from nki_agent.task.task import ShapeSet, StaticArgument, Task, TensorArgument


def write_kernel(
    task: Task,
    target: Target,
    *,
    choices: Choices | None = None,
    captured: Captured | None = None,
) -> str:
    """The kernel for a task; `captured` is its graph, if it is known.

    Raises:
        UnsupportedError: what cannot be written, why, and what to try.
    """
    captured = captured or capture_task(task)
    choices = choices or Choices()
    try:
        return _write(task, captured, target, choices=choices)
    except UnsupportedError:
        if not choices.joining:
            raise
    # A joined stage may need to say a size that follows from none of its tensors' own.
    return _write(task, captured, target, choices=replace(choices, joining=False))


def _write(task: Task, captured: Captured, target: Target, *, choices: Choices) -> str:
    title = f"Kernel for the task `{task.id}`, by the built-in author of nki-agent."
    names: dict[str, str] = {}
    while True:
        plan = _make_plan(task, captured, target, choices=choices, names=names)
        source = print_plan(plan, title=title)
        found = find_clashes(source, {argument.name for argument in plan.arguments})
        if not found:
            return source
        own = {called: name for name, called in names.items()}
        names |= {own.get(name, name): called for name, called in found.items()}


def _make_plan(
    task: Task,
    captured: Captured,
    target: Target,
    *,
    choices: Choices,
    names: Mapping[str, str],
) -> Plan:
    """The plan for a captured task; `names` are those of arguments that are called otherwise."""
    return plan_kernel(
        rename(captured, names) if names else captured,
        arguments=_arguments(captured.shape_sets, names),
        result_names=tuple(output.name for output in task.outputs),
        updates=tuple(names.get(name, name) for name in task.updates),
        chip=load_chip(target),
        choices=choices,
    )


def _arguments(shape_sets: Sequence[ShapeSet], names: Mapping[str, str]) -> tuple[Argument, ...]:
    found = []
    for same in zip(*(shape_set.arguments for shape_set in shape_sets), strict=True):
        name = names.get(same[0].name, same[0].name)
        tensors = [a for a in same if isinstance(a, TensorArgument)]
        numbers = [a.value for a in same if isinstance(a, StaticArgument) and type(a.value) is int]
        if tensors:
            shape = tuple(zip(*(tensor.shape for tensor in tensors), strict=True))
            found.append(Argument(name=name, shape=shape, dtype=tensors[0].dtype))
        else:
            is_size = len(numbers) == len(same) > 1
            found.append(
                Argument(name=name, shape=None, number=tuple(numbers) if is_size else None)
            )
    return tuple(found)
