"""Compares outputs with the room that honest arithmetic needs on one trial's very inputs.

Law: limits are settled when a task is loaded, on a few draws; a rare draw may cancel more than all
of them. Where an output is only a little over its limits, the reference in float32, and in 16 bits
where the task is, says on the same inputs how much of them honest arithmetic takes, and the limits
are widened by that. What is right without this, or wrong by more, costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.task.cause import Context, eps_of
from nki_agent.task.comparison import Comparison, compare
from nki_agent.task.moving import move_inputs
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
ROUNDING = 0.5
"""How far inputs are moved, over the distance of neighbouring numbers."""
NUM_RUNS = 12
"""Runs in the task's own format: of nearly equal peaks, each turns some around."""
HANGING_SHARE = 0.05
"""Of the rows, or a single one, so many may hang: the others keep their limits."""


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
    rough = _Rough(trial, shapes, inputs, own)
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
        judge = partial(judge, tolerance=limits.loosened(slack) if slack > 1.0 else limits)
        if slack > 1.0:
            found[name] = judge(actual[name], context=context)
        if not found[name].right:
            for settled in _settle_rows(wanted[name], actual[name], rough.list_runs(name)):
                compared = judge(settled, context=context)
                if compared.right:
                    found[name] = compared
                    break
    return found


class _Rough:
    """Runs in the task's own dtype; in 16 or 8 bits more, on inputs that were rounded once more.

    A kernel may round its inputs after a scale, and what comes of them at other places than the
    reference: each run turns other ties around.
    """

    def __init__(
        self, trial: Trial, shapes: ShapeSet, inputs: Mapping[str, Array], own: dict[str, Array]
    ) -> None:
        self._trial = trial
        self._shapes = shapes
        self._inputs = inputs
        self._made = [own]

    def list_runs(self, name: str) -> Iterator[Array]:
        """One output of each run; they are made as they are asked for."""
        for number in range(NUM_RUNS if is_narrow(self._shapes) else 1):
            if number == len(self._made):
                try:
                    self._made.append(self._run(number))
                except TaskError:  # it refuses such inputs: no more is known of them
                    return
            yield self._made[number][name]

    def _run(self, number: int) -> dict[str, Array]:
        narrow = {t.name: t.dtype for t in self._shapes.tensors if _is_narrow(t.dtype)}
        by = ROUNDING * max(eps_of(dtype) for dtype in narrow.values())
        rng = rng_for(self._trial.seed, "rounding", number)
        moved = move_inputs(self._inputs, narrow, by=by, rng=rng)
        stored = {
            name: array.astype(narrow[name].numpy_dtype) if name in narrow else array
            for name, array in moved.items()
        }
        return stand_in(self._shapes, stored, Precision.OWN)


def _settle_rows(wanted: Array, actual: Array, runs: Iterator[Array]) -> Iterator[Array]:
    """The output with right values in a few rows that hang on a rounding, anew after each run.

    Honest arithmetic errs many times as much on such a row as on the others: two peaks of its
    softmax are nearly equal. A kernel that rounds elsewhere may err some times as much there.
    """
    if wanted.ndim < 2 or wanted.size == 0:  # noqa: PLR2004 - without rows
        return
    right, got = _rows_of(wanted), _rows_of(actual)
    num_settled = max(1, int(HANGING_SHARE * len(right)))
    honest = np.zeros(len(right))
    with np.errstate(invalid="ignore"):  # where the reference is infinite too; NaN settles nothing
        errors = np.abs(got - right).max(axis=1)
        for run in runs:
            honest = np.maximum(honest, np.abs(_rows_of(run) - right).max(axis=1))
            hanging = honest > HANGING * np.median(honest)
            (places,) = np.nonzero(hanging & (errors <= OTHER_ORDER * honest))
            # The worst of them, as far as the share goes.
            places = places[np.argsort(-errors[places])][:num_settled]
            mended = got.copy()
            mended[places] = right[places]
            yield mended.reshape(actual.shape).astype(actual.dtype)


def _rows_of(array: Array) -> Array:
    return array.astype(np.float64).reshape(-1, array.shape[-1])


def is_narrow(shapes: ShapeSet) -> bool:
    """Whether the two stand-ins differ."""
    return any(_is_narrow(tensor.dtype) for tensor in shapes.tensors)


def _is_narrow(dtype: DType) -> bool:
    return dtype.is_float and dtype.itemsize < DType.FLOAT32.itemsize


def _is_near(task: Task, output: Output, found: Comparison) -> bool:
    is_real = task.tolerance_of(output).gate is Gate.REAL
    return is_real and not found.right and found.ratio <= SLACKS[-1]
