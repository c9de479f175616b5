"""Outputs where the reference itself is undecided: near ties that any rounding may turn.

Law: an index or a code that differs from the reference's is accepted only where the reference gives
that very value on inputs that are moved by the rounding of float32 arithmetic, and only for few
elements; an index further in no row that names one twice, a code only one step off. Nothing else is
loosened: the values beside an index, and the scales beside codes, are compared as always.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.task.comparison import ordinals
from nki_agent.task.moving import move_inputs
from nki_agent.task.reference import Precision
from nki_agent.task.task import Output, ShapeSet, Task
from nki_agent.task.tolerance import (
    CODE_STEPS,
    Gate,
    ToleranceClass,
    tolerance_for,
)
from nki_agent.task.trial import Trial, arrange, shapes_named

Array = NDArray[Any]
Mask = NDArray[np.bool_]

NUM_RUNS = 24
"""Moved runs of the reference: a tie within rounding is turned by half of them."""
INDEX_SHARE = 0.02
"""Part of an index output that may be undecided."""
TIED_SHARE = 0.1
"""Part of the codes that is looked at: bfloat16 rows over their largest value have exact ties."""
MOVED_BY = tolerance_for(ToleranceClass.F2, DType.FLOAT32).rel_l2
"""Relative standard deviation of the moved inputs: what a kernel in float32 may be off."""


def accept_ties(
    task: Task,
    trial: Trial,
    inputs: Mapping[str, Array],
    wanted: Mapping[str, Array],
    actual: Mapping[str, Array],
) -> dict[str, Array]:
    """`actual` with the reference's index or code wherever both are right."""
    found = dict(actual)
    shapes = shapes_named(task, trial.shapes)
    doubtful = {
        o.name: mask
        for o in shapes.results
        if (mask := _find_doubtful(task, o, wanted[o.name], actual[o.name])) is not None
    }
    if not doubtful:
        return found
    dtypes = {o.name: o.dtype.numpy_dtype for o in shapes.results}
    for other in _moved_runs(trial, shapes, inputs):
        for name, mask in doubtful.items():
            same = mask & (_store(other[name], dtypes[name]) == actual[name])
            found[name] = np.where(same, _store(wanted[name], dtypes[name]), found[name])
            mask[same] = False
        if not any(mask.any() for mask in doubtful.values()):
            break
    return found


def _find_doubtful(task: Task, output: Output, wanted: Array, actual: Array) -> Mask | None:
    """Elements that a tie may excuse; None where there are none, or too many."""
    if wanted.shape != actual.shape or actual.dtype != output.dtype.numpy_dtype or not wanted.size:
        return None
    if task.tolerance_of(output).gate is Gate.CODES:
        steps = np.abs(ordinals(_store(wanted, actual.dtype)) - ordinals(actual))
        differing, near, share = steps > 0, steps <= CODE_STEPS, TIED_SHARE
    elif task.tolerance is ToleranceClass.IX and output.dtype.is_integer:
        differing, near = wanted != actual, ~_repeats(wanted, actual)
        share = INDEX_SHARE
    else:
        return None
    mask: Mask = differing & near
    return mask if mask.any() and differing.mean() <= share else None


def _store(values: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype, copy=False)


def _repeats(wanted: Array, actual: Array) -> Mask:
    """Rows along the last axis that name an index twice where the reference names each once."""
    repeats = _has_twice(actual) & ~_has_twice(wanted)
    return np.broadcast_to(repeats[..., None], actual.shape)


def _has_twice(rows: Array) -> Mask:
    ordered = np.sort(rows, axis=-1)
    twice: Mask = (ordered[..., 1:] == ordered[..., :-1]).any(axis=-1)
    return twice


def _moved_runs(
    trial: Trial, shapes: ShapeSet, inputs: Mapping[str, Array]
) -> Iterator[dict[str, Array]]:
    """The reference in float64 on inputs that are off by what float32 arithmetic may be."""
    reals = [t.name for t in shapes.tensors if t.dtype.is_float]
    for number in range(NUM_RUNS):
        rng = rng_for(trial.seed, "tie", number)
        moved = move_inputs(inputs, reals, by=MOVED_BY, rng=rng)
        yield arrange(shapes, shapes.reference.run(moved, precision=Precision.DOUBLE))
