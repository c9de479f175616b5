"""Index outputs where the reference itself is undecided: near ties that any rounding may turn.

Law: an index that differs from the reference's is accepted only where the reference gives that very
index on inputs that are moved by the tolerance, only for few elements, and in no row that names an
index twice. Nothing else is loosened: the values beside an index are compared as always.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.seeds import rng_for
from nki_agent.task.reference import Precision
from nki_agent.task.task import ShapeSet, Task
from nki_agent.task.tolerance import ToleranceClass, tolerance_for
from nki_agent.task.trial import Trial, arrange, shapes_named

Array = NDArray[Any]

NUM_RUNS = 8
"""Moved runs of the reference: a tie within rounding is turned by half of them."""
SHARE_MAX = 0.02
"""Part of an index output that may be undecided."""


def accept_ties(
    task: Task,
    trial: Trial,
    inputs: Mapping[str, Array],
    wanted: Mapping[str, Array],
    actual: Mapping[str, Array],
) -> dict[str, Array]:
    """`actual` with the reference's index wherever both are right; unchanged but for class IX."""
    found = dict(actual)
    shapes = shapes_named(task, trial.shapes)
    if task.tolerance is not ToleranceClass.IX:
        return found
    differing = {
        o.name: (wanted[o.name] != actual[o.name]) & ~_repeats(wanted[o.name], actual[o.name])
        for o in shapes.results
        if o.dtype.is_integer and _is_comparable(wanted[o.name], actual[o.name])
    }
    differing = {n: d for n, d in differing.items() if 0 < d.mean() <= SHARE_MAX}
    if not differing:
        return found
    accepted = {name: np.zeros_like(mask) for name, mask in differing.items()}
    for other in _moved_runs(task, trial, shapes, inputs):
        for name, mask in differing.items():
            accepted[name] |= mask & (other[name] == actual[name])
    for name, mask in accepted.items():
        found[name] = np.where(mask, wanted[name], actual[name]).astype(actual[name].dtype)
    return found


def _is_comparable(wanted: Array, actual: Array) -> bool:
    return wanted.shape == actual.shape and wanted.size > 0


def _repeats(wanted: Array, actual: Array) -> NDArray[np.bool_]:
    """Rows along the last axis that name an index twice where the reference names each once."""
    repeats = _has_twice(actual) & ~_has_twice(wanted)
    return np.broadcast_to(repeats[..., None], actual.shape)


def _has_twice(rows: Array) -> NDArray[np.bool_]:
    ordered = np.sort(rows, axis=-1)
    twice: NDArray[np.bool_] = (ordered[..., 1:] == ordered[..., :-1]).any(axis=-1)
    return twice


def _moved_runs(
    task: Task, trial: Trial, shapes: ShapeSet, inputs: Mapping[str, Array]
) -> Iterator[dict[str, Array]]:
    """The reference in float64 on inputs that are off by the rounding of their own dtype."""
    reals = {t.name: t.dtype for t in shapes.tensors if t.dtype.is_float}
    for number in range(NUM_RUNS):
        rng = rng_for(trial.seed, "tie", number)
        moved = dict(inputs)
        for name, dtype in reals.items():
            size = tolerance_for(task.tolerance, dtype).rel_l2
            noise = 1.0 + size * rng.standard_normal(inputs[name].shape)
            moved[name] = inputs[name].astype(np.float64) * noise
        yield arrange(shapes, shapes.reference.run(moved, precision=Precision.DOUBLE))
