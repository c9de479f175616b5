"""A draw on which honest arithmetic loses digits has room for it, and no other has."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nki_agent.bench.suite import TASKS
from nki_agent.task.conditioning import compare_fairly
from nki_agent.task.loader import load_task
from nki_agent.task.reference import Precision
from nki_agent.task.task import Task
from nki_agent.task.trial import Trial, compare_outputs, expected, make_trials, stand_in

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


@pytest.fixture(scope="module")
def decode() -> Task:
    return load_task(TASKS / "l3-mla-decode-absorbed-bf16.py")


def find_hard_trial(task: Task) -> tuple[Trial, Any, Any, Any]:
    """A draw on which the reference in its own bfloat16 is over the limits."""
    for seed in range(1000, 1040):
        for trial in make_trials(task, seed):
            if trial.shapes == task.dev.name:
                inputs = trial.inputs(task)
                wanted = expected(task, inputs)
                own = stand_in(task.dev, inputs, Precision.OWN)
                found = compare_outputs(task, trial, wanted, own)
                if not all(comparison.right for comparison in found.values()):
                    return trial, inputs, wanted, own
    raise AssertionError("no such draw any more: choose another task")


def test_the_reference_in_the_tasks_own_format_is_right_on_every_draw(decode: Task) -> None:
    trial, inputs, wanted, own = find_hard_trial(decode)
    fairly = compare_fairly(decode, trial, wanted, own, inputs=inputs)
    assert all(comparison.right for comparison in fairly.values())


def test_outputs_of_other_inputs_are_wrong_on_a_hard_draw_too(decode: Task) -> None:
    trial, inputs, wanted, _ = find_hard_trial(decode)
    others = {name: np.roll(array, 1, axis=-1) for name, array in inputs.items()}
    stale = stand_in(decode.dev, others, Precision.OWN)
    found = compare_fairly(decode, trial, wanted, stale, inputs=inputs)
    assert not any(comparison.right for comparison in found.values())


@pytest.fixture(scope="module")
def bert() -> Task:
    return load_task(TASKS / "l3-bert-encoder-layer-bf16.py")


def find_hanging_trial(task: Task) -> tuple[Trial, Any, Any, Any]:
    """A big trial in which two peaks of one row's softmax are nearly equal."""
    trial = make_trials(task, 1654878362994993765)[3]
    inputs = trial.inputs(task)
    wanted = expected(task, inputs)
    own = stand_in(task.dev, inputs, Precision.OWN)
    return trial, inputs, wanted, own


def err_more(wanted: Any, own: Any, *, factor: float, row: int | None = None) -> Any:
    """The stand-in's errors so many times, on its worst row or on another."""
    right = wanted["y"].reshape(-1, wanted["y"].shape[-1])
    errors = own["y"].astype(np.float64).reshape(right.shape) - right
    worst = int(np.abs(errors).max(axis=1).argmax())
    got = right + errors
    place = worst if row is None else row
    got[place] = right[place] + factor * errors[worst]
    return {"y": got.reshape(wanted["y"].shape).astype(own["y"].dtype)}


def test_row_that_hangs_on_a_rounding_may_err_some_times_as_much(bert: Task) -> None:
    trial, inputs, wanted, own = find_hanging_trial(bert)
    got = err_more(wanted, own, factor=4.0)
    assert not compare_outputs(bert, trial, wanted, got)["y"].right
    assert compare_fairly(bert, trial, wanted, got, inputs=inputs)["y"].right


def test_no_other_row_may_and_no_row_may_err_without_bound(bert: Task) -> None:
    trial, inputs, wanted, own = find_hanging_trial(bert)
    for got in (err_more(wanted, own, factor=4.0, row=3), err_more(wanted, own, factor=64.0)):
        assert not compare_fairly(bert, trial, wanted, got, inputs=inputs)["y"].right


@pytest.fixture(scope="module")
def attention() -> Task:
    return load_task(TASKS / "l2-sdpa-full-bf16.py")


def attend(inputs: Any, *, scaled_first: bool) -> Any:
    """Attention with float32 inside; the scale goes into queries in bfloat16, or into scores."""
    query, key, value = (inputs[name].astype(np.float32) for name in ("query", "key", "value"))
    scale = np.float32(query.shape[-1] ** -0.5)
    if scaled_first:
        query = (query * scale).astype(inputs["query"].dtype).astype(np.float32)
        scale = np.float32(1.0)
    scores = (query @ key.swapaxes(-1, -2)) * scale
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    found = (exps / exps.sum(axis=-1, keepdims=True)) @ value
    return {"y": found.astype(inputs["query"].dtype)}


@pytest.mark.parametrize("scaled_first", [False, True])
def test_attention_that_scales_queries_in_bfloat16_is_right(
    attention: Task, scaled_first: bool
) -> None:
    for seed in range(16):
        trial = make_trials(attention, seed)[3]
        inputs = trial.inputs(attention)
        wanted, actual = expected(attention, inputs), attend(inputs, scaled_first=scaled_first)
        assert compare_fairly(attention, trial, wanted, actual, inputs=inputs)["y"].right, seed


def test_attention_that_weighs_one_key_wrong_is_not(attention: Task) -> None:
    trial = make_trials(attention, 1)[3]
    inputs = trial.inputs(attention)
    wanted = expected(attention, inputs)
    shorter = {**inputs, "key": inputs["key"].copy()}
    shorter["key"][..., -1, :] = 0
    actual = attend(shorter, scaled_first=True)
    assert not compare_fairly(attention, trial, wanted, actual, inputs=inputs)["y"].right


def test_peaks_that_rounding_inside_a_block_turns_around_are_no_fault() -> None:
    task = load_task(TASKS / "l3-gpt2-block-bf16.py")
    trial = make_trials(task, 7)[3]
    inputs = trial.inputs(task)
    wanted, own = expected(task, inputs), stand_in(task.dev, inputs, Precision.OWN)
    moved = {n: a.astype(np.float64) * (1 + 1e-3) for n, a in inputs.items()}
    stored = {n: a.astype(inputs[n].dtype) for n, a in moved.items()}
    other = stand_in(task.dev, stored, Precision.OWN)
    for actual in (own, other):
        assert compare_fairly(task, trial, wanted, actual, inputs=inputs)["y"].right
