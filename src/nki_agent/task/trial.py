"""Trials: secret inputs, the float64 reference on them, and the comparison of a kernel's outputs.

Law: a trial is its root seed, the task's id and its number; nothing else decides its inputs. The
reference runs after the kernel, in the caller's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import seed_for
from nki_agent.task.cause import Context
from nki_agent.task.comparison import Comparison, compare
from nki_agent.task.family import TRIAL_FAMILIES, Family
from nki_agent.task.peaks import draw_trial
from nki_agent.task.reference import Precision, Results
from nki_agent.task.task import Output, ShapeSet, Task
from nki_agent.task.tolerance import Tolerance

Array = NDArray[Any]

TRIALS_VERSION = 4
"""Rises when a root seed draws other inputs or sets other limits; verdicts of both are not one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One set of secret inputs, not drawn yet. `shapes` names the shape set that it is for."""

    index: int
    family: Family
    seed: int
    shapes: str

    def inputs(self, task: Task) -> dict[str, Array]:
        """The tensor arguments by name, in their order and their stored dtype; fresh each call."""
        shapes = shapes_named(task, self.shapes)
        return draw_trial(shapes, self.seed, shapes.scale_of(self.family))

    def tolerance(self, task: Task, output: Output) -> Tolerance:
        """The limits for one output, with the slack of the trial's family."""
        slack = shapes_named(task, self.shapes).scale_of(self.family).slack
        return task.tolerance_of(output).loosened(slack)


def shapes_named(task: Task, name: str) -> ShapeSet:
    """The shape set of that name."""
    for shapes in task.shape_sets:
        if shapes.name == name:
            return shapes
    raise KeyError(name)


def make_trials(task: Task, root_seed: int, *, shapes: str | None = None) -> tuple[Trial, ...]:
    """Five trials: three standard, one big, one tiny; at the dev shapes unless told otherwise.

    A sixth has rows of scores far below zero, where a task has a scale for that.

    Where a claim of speed needs one trial at the perf shapes, take the first of these.
    """
    name = task.dev.name if shapes is None else shapes
    more = [Family.LOW] if Family.LOW in shapes_named(task, name).scales else []
    return tuple(
        Trial(
            index=index,
            family=family,
            seed=seed_for(root_seed, task.id, name, "trial", index),
            shapes=name,
        )
        for index, family in enumerate([*TRIAL_FAMILIES, *more])
    )


def expected(
    task: Task, inputs: Mapping[str, Array], *, shapes: str | None = None
) -> dict[str, Array]:
    """Run the reference in float64: outputs in order, then the inputs that it updates.

    Reals come in float64, not rounded; integers in their stored dtype.
    """
    chosen = task.dev if shapes is None else shapes_named(task, shapes)
    return arrange(chosen, chosen.reference.run(inputs, precision=Precision.DOUBLE))


def arrange(shapes: ShapeSet, results: Results) -> dict[str, Array]:
    """Results in the order and form in which they are compared."""
    found = {**results.outputs, **results.inputs}
    if len(results.outputs) != len(shapes.outputs):
        raise TaskError(
            f"the reference gives {len(results.outputs)} results on these values, and gave "
            f"{len(shapes.outputs)} before",
            hint="the number of outputs must not depend on the values of inputs",
        )
    arranged = {}
    for output in shapes.results:
        array = found[output.name]
        array = array.reshape(1) if array.ndim == 0 else array
        if array.shape != output.shape:
            raise TaskError(
                f"the reference gives `{output.name}` the shape {list(array.shape)} on these "
                f"values, and gave it {list(output.shape)} before",
                hint="shapes of outputs must not depend on the values of inputs",
            )
        if output.dtype.is_float and array.dtype.kind in "biu":
            raise TaskError(
                f"the reference gives `{output.name}` as {array.dtype} on these values, and gave "
                f"it as {output.dtype.value} before",
                hint="dtypes of outputs must not depend on the values of inputs",
            )
        is_wide = array.dtype == np.float64 and output.dtype.is_float
        arranged[output.name] = array if is_wide else _as_stored(array, output)
    return arranged


def stand_in(
    shapes: ShapeSet, inputs: Mapping[str, Array], precision: Precision
) -> dict[str, Array]:
    """What an honest kernel that computes in this precision stores."""
    found = arrange(shapes, shapes.reference.run(inputs, precision=precision))
    return round_results(shapes, found)


def round_results(shapes: ShapeSet, results: Mapping[str, Array]) -> dict[str, Array]:
    """Results rounded to the dtypes that they are stored in."""
    with np.errstate(over="ignore", invalid="ignore"):
        return {o.name: results[o.name].astype(o.dtype.numpy_dtype) for o in shapes.results}


def _as_stored(array: Array, output: Output) -> Array:
    if output.dtype.is_float:
        return array.astype(np.float64)
    return array.astype(output.dtype.numpy_dtype)


def compare_outputs(
    task: Task,
    trial: Trial,
    wanted: Mapping[str, Array],
    actual: Mapping[str, Array],
    *,
    inputs: Mapping[str, Array] | None = None,
) -> dict[str, Comparison]:
    """Compare everything that the trial's shape set lists, by name, in order.

    Ties are settled before (undecided.py): no code may be off here.
    With the trial's `inputs`, more causes of a wrong output can be told.
    """
    context = Context(inputs=inputs or {}, family=trial.family)
    return {
        output.name: compare(
            wanted[output.name],
            actual[output.name],
            dtype=output.dtype,
            tolerance=trial.tolerance(task, output).decided,
            context=context,
        )
        for output in shapes_named(task, trial.shapes).results
    }
