"""A draw on which honest arithmetic loses digits has room for it, and no other has."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nki_agent.bench.suite import TASKS
from nki_agent.task.conditioning import compare_fairly
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.task.trial import Trial, compare_outputs, expected, make_trials

Array = NDArray[Any]
ROOT_SEED = 31
"""In its second trial all losses but one are zero, and that one is a small difference."""
DISTANCE = 24.0
"""What the differences are taken of."""
ROUNDINGS = 2.0**-23 * DISTANCE


@pytest.fixture(scope="module")
def triplet() -> Task:
    return load_task(TASKS / "l2-triplet-margin-rows.py")


def is_right(task: Task, trial: Trial, *, error: float) -> tuple[bool, bool]:
    """Whether losses that are off by so much are right: plainly, and with the draw's room."""
    inputs = trial.inputs(task)
    wanted = expected(task, inputs)
    (name,) = wanted
    got = {name: np.where(wanted[name] > 0, wanted[name] + error, 0.0).astype(np.float32)}
    plainly = compare_outputs(task, trial, wanted, got)
    fairly = compare_fairly(task, trial, wanted, got, inputs=inputs)
    return plainly[name].right, fairly[name].right


def test_honest_output_that_cancels_by_chance_is_right(triplet: Task) -> None:
    trial = make_trials(triplet, ROOT_SEED)[1]
    assert is_right(triplet, trial, error=ROUNDINGS) == (False, True)


def test_error_beyond_rounding_is_wrong_in_such_a_draw_too(triplet: Task) -> None:
    trial = make_trials(triplet, ROOT_SEED)[1]
    assert is_right(triplet, trial, error=20 * ROUNDINGS) == (False, False)


def test_ordinary_draw_has_no_room_beyond_its_limits(triplet: Task) -> None:
    trial = make_trials(triplet, ROOT_SEED)[0]
    assert is_right(triplet, trial, error=ROUNDINGS) == (True, True)
    for error in (2e-3, 5e-3, 1e-2):
        assert is_right(triplet, trial, error=error) == (False, False)
