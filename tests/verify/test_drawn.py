"""What is kept between kernels on one seed is what each of them would have had by itself."""

from __future__ import annotations

import numpy as np
import pytest

from nki_agent.task.task import Task
from nki_agent.task.trial import expected, make_trials
from nki_agent.verify import drawn
from nki_agent.verify.drawn import Drawn
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from tests.kernels import SOFTMAX

SEED = 5


def test_kept_arrays_are_those_that_are_made_anew(softmax: Task) -> None:
    kept = Drawn()
    for _ in range(3):
        kept.begin(softmax, SEED)
        for trial in make_trials(softmax, SEED):
            inputs = kept.inputs(trial)
            wanted = kept.expected(trial, inputs)
            fresh = trial.inputs(softmax)
            assert all(np.array_equal(inputs[name], fresh[name]) for name in fresh)
            for name, array in expected(softmax, fresh).items():
                assert np.array_equal(wanted[name], array)


def test_arrays_are_kept_from_the_second_kernel_on_and_cannot_be_written(softmax: Task) -> None:
    kept, trial = Drawn(), make_trials(softmax, SEED)[0]
    kept.begin(softmax, SEED)
    first = kept.inputs(trial)
    assert kept.inputs(trial) is not first
    kept.begin(softmax, SEED)
    kept.inputs(trial)
    again = kept.inputs(trial)
    assert kept.inputs(trial) is again
    for array in again.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_seeds_are_kept_apart_and_the_oldest_is_forgotten(softmax: Task) -> None:
    kept, trial = Drawn(), make_trials(softmax, SEED)[0]
    for seed in (SEED, SEED):
        kept.begin(softmax, seed)
        kept.inputs(trial)
    mine = kept.inputs(trial)
    for seed in range(SEED + 1, SEED + drawn.PAIRS_MAX):
        kept.begin(softmax, seed)
        assert kept.inputs(trial) is not mine
    kept.begin(softmax, SEED)
    assert kept.inputs(trial) is mine
    for seed in range(SEED + 1, SEED + 1 + drawn.PAIRS_MAX):
        kept.begin(softmax, seed)
    kept.begin(softmax, SEED)
    assert kept.inputs(trial) is not mine


def test_arrays_over_the_limit_are_not_kept(softmax: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "KEPT_BYTES_MAX", 1000)
    kept, trial = Drawn(), make_trials(softmax, SEED)[0]
    for _ in range(2):
        kept.begin(softmax, SEED)
    assert kept.inputs(trial) is not kept.inputs(trial)


def test_kernel_that_is_wrong_between_right_ones_is_wrong(judge: Judge, softmax: Task) -> None:
    wrong = SOFTMAX.replace("nl.exp", "nl.tanh")
    assert wrong != SOFTMAX
    found = [
        judge.judge(Kernel.from_text(source), softmax, root_seed=SEED).right
        for source in (SOFTMAX, wrong, SOFTMAX, wrong)
    ]
    assert found == [True, False, True, False]
