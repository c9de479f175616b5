"""Compares outputs with the room that honest arithmetic needs on one trial's very inputs.

Law: limits are settled when a task is loaded, on a few draws; a rare draw may cancel more than all
of them. Where an output is only a little over its limits, the reference in float32 says on the same
inputs how much of them honest arithmetic takes, and the limits are widened by that. What is right
without this, or wrong by more, costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.task.cause import Context
from nki_agent.task.comparison import Comparison, compare
from nki_agent.task.reference import Precision
from nki_agent.task.task import Output, Task
from nki_agent.task.tolerance import Gate
from nki_agent.task.trial import Trial, compare_outputs, round_results, shapes_named, stand_in

Array = NDArray[Any]

SLACKS = (1.0, 2.0, 5.0, 10.0)
"""Widenings of the limits where the reference is badly conditioned."""
OTHER_ORDER = 8.0
"""An honest kernel's arithmetic may err so many times as much as that of the single stand-in: what
cancels in a row depends on the order of sums, on the form of a product, and on the draw."""


def need_of(rounded: float, share: float) -> float:
    """The limits that honest kernels need: one rounding's share, and arithmetic with room."""
    return rounded + OTHER_ORDER * max(0.0, share - rounded)


def slack_for(need: float) -> float:
    """The least widening that leaves so much room, or the largest."""
    return next((slack for slack in SLACKS if need <= slack), SLACKS[-1])


def compare_fairly(
    task: Task,
    trial: Trial,
    wanted: Mapping[str, Array],
    actual: Mapping[str, Array],
    *,
    inputs: Mapping[str, Array],
) -> dict[str, Comparison]:
    """Compare everything that the trial's shape set lists, by name, in order."""
    found = compare_outputs(task, trial, wanted, actual, inputs=inputs)
    shapes = shapes_named(task, trial.shapes)
    near = [o for o in shapes.results if _is_near(task, o, found[o.name])]
    if not near:
        return found
    try:
        single = stand_in(shapes, inputs, Precision.SINGLE)
    except TaskError:
        return found
    rounded = round_results(shapes, wanted)
    context = Context(inputs=inputs, family=trial.family)
    for output in near:
        name, limits = output.name, trial.tolerance(task, output).decided
        judge = partial(compare, wanted[name], dtype=output.dtype)
        rounding, share = (
            judge(arrays[name], tolerance=limits, context=None).ratio
            for arrays in (rounded, single)
        )
        slack = slack_for(need_of(rounding, share))
        if slack > 1.0:
            wider = limits.loosened(slack)
            found[name] = judge(actual[name], tolerance=wider, context=context)
    return found


def _is_near(task: Task, output: Output, found: Comparison) -> bool:
    is_real = task.tolerance_of(output).gate is Gate.REAL
    return is_real and not found.right and found.ratio <= SLACKS[-1]
