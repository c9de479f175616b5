"""Compares outputs with the room that honest arithmetic needs on one trial's very inputs.

Law: limits are settled when a task is loaded, on a few draws; a rare draw may cancel more than all
of them. Where an output is only a little over its limits, the reference in float32, and in 16 bits
where the task is, says on the same inputs how much of them honest arithmetic takes, and the limits
are widened by that. What is right without this, or wrong by more, costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.isa.dtype import DType
from nki_agent.task.cause import Context
from nki_agent.task.comparison import Comparison, compare
from nki_agent.task.reference import Precision
from nki_agent.task.task import Output, ShapeSet, Task
from nki_agent.task.tolerance import Gate
from nki_agent.task.trial import Trial, compare_outputs, round_results, shapes_named, stand_in

Array = NDArray[Any]

SLACKS = (1.0, 2.0, 5.0, 10.0)
"""Widenings of the limits where the reference is badly conditioned."""
HONEST_SHARE = 0.5
"""Part of the limits that an honest stand-in may use up: a kernel may err in another way."""
OTHER_ORDER = 8.0
"""An honest kernel's arithmetic may err so many times as much as that of the single stand-in: what
cancels in a row depends on the order of sums, on the form of a product, and on the draw."""
HANGING = 16.0
"""A row on which a stand-in errs so many times as much as on the middle one hangs on a rounding."""
HANGING_SHARE = 0.05
"""Of the rows, or a single one: where more hang, the limits are what was settled for that."""


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
        own = stand_in(shapes, inputs, Precision.OWN) if is_narrow(shapes) else single
    except TaskError:
        return found
    rounded = round_results(shapes, wanted)
    context = Context(inputs=inputs, family=trial.family)
    for output in near:
        name, limits = output.name, trial.tolerance(task, output).decided
        judge = partial(compare, wanted[name], dtype=output.dtype)
        rounding, share, own_share = (
            judge(arrays[name], tolerance=limits, context=None).ratio
            for arrays in (rounded, single, own)
        )
        need = need_of(rounding, share)
        if own is not single:
            need = max(need, own_share / HONEST_SHARE)
        slack = slack_for(need)
        limits = limits.loosened(slack) if slack > 1.0 else limits
        settled = _settle_rows(wanted[name], actual[name], own[name])
        if slack > 1.0 or settled is not None:
            values = actual[name] if settled is None else settled
            found[name] = judge(values, tolerance=limits, context=context)
    return found


def _settle_rows(wanted: Array, actual: Array, own: Array) -> Array | None:
    """The output with right values in a few rows that hang on a rounding; None where none does.

    Honest arithmetic errs many times as much on such a row as on the others: two peaks of its
    softmax are nearly equal. A kernel that rounds elsewhere may err some times as much there.
    """
    if wanted.ndim < 2 or wanted.size == 0:  # noqa: PLR2004 - without rows
        return None
    rows = tuple(a.astype(np.float64).reshape(-1, a.shape[-1]) for a in (wanted, actual, own))
    right, got, honest = rows
    with np.errstate(invalid="ignore"):  # where the reference is infinite too; NaN settles nothing
        honest_errors = np.abs(honest - right).max(axis=1)
        errors = np.abs(got - right).max(axis=1)
    hanging = honest_errors > HANGING * np.median(honest_errors)
    settled = hanging & (errors <= OTHER_ORDER * honest_errors)
    if not settled.any() or np.count_nonzero(hanging) > max(1.0, HANGING_SHARE * len(right)):
        return None
    mended = np.where(settled[:, None], right, got).reshape(actual.shape)
    return mended.astype(actual.dtype)


def is_narrow(shapes: ShapeSet) -> bool:
    """Whether the two stand-ins differ."""
    dtypes = [tensor.dtype for tensor in shapes.tensors]
    return any(d.is_float and d.itemsize < DType.FLOAT32.itemsize for d in dtypes)


def _is_near(task: Task, output: Output, found: Comparison) -> bool:
    is_real = task.tolerance_of(output).gate is Gate.REAL
    return is_real and not found.right and found.ratio <= SLACKS[-1]
