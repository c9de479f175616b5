"""In big trials of a softmax over products, each half of a row's scores leads by far somewhere."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nki_agent.bench.suite import builtin_suite
from nki_agent.sandbox.task_host import TaskHost, load_untrusted_task
from nki_agent.task.family import Family
from nki_agent.task.loader import load_task
from nki_agent.task.peaks import DRAWS_MAX, draw_trial
from nki_agent.task.reference import Reach, WatchedReference
from nki_agent.task.task import Task
from nki_agent.task.trial import make_trials
from tests.task.conftest import Load

DECODING = ("l2-mqa-decode-bf16", "l2-gqa-decode-varlen-bf16", "l2-docmask-attention")
OVERFLOWS_BY = 88.8
UNDERFLOWS_BY = -104.0
SEEDS = range(24)
CAPPED = """
class Model(nn.Module):
    def forward(self, q, k):
        return torch.softmax(torch.tanh(q @ k), -1)

def get_inputs():
    return [torch.randn(6, 16), torch.randn(16, 24)]

def get_init_inputs():
    return []
"""


def find_path(task_id: str) -> Path:
    return builtin_suite().find_task(task_id).path


def reach_of(task: Task, root_seed: int) -> Reach:
    (trial,) = [t for t in make_trials(task, root_seed) if t.family is Family.BIG]
    assert isinstance(task.dev.reference, WatchedReference)
    return task.dev.reference.find_reach(trial.inputs(task))


def test_some_row_of_scores_is_far_below_zero_in_nearly_every_big_trial() -> None:
    task = load_task(find_path("l2-scores-scale-softmax"))
    lows = [reach_of(task, seed).lowest_row for seed in SEEDS]
    assert sum(low < UNDERFLOWS_BY for low in lows) >= len(lows) - 1


@pytest.mark.parametrize("task_id", DECODING)
def test_maximum_of_half_a_row_overflows_in_nearly_every_big_trial(task_id: str) -> None:
    task = load_task(find_path(task_id))
    leads = [reach_of(task, seed).lead for seed in SEEDS]
    assert sum(lead > OVERFLOWS_BY for lead in leads) >= len(leads) - 1


def test_scores_of_half_a_row_are_left_out_as_a_kernel_would_that_forgets_them() -> None:
    task = load_task(find_path("l2-mqa-decode-bf16"))
    (trial,) = [t for t in make_trials(task, 3) if t.family is Family.BIG]
    query, key = (trial.inputs(task)[n].astype(np.float64) for n in ("query", "key"))
    scores = (query @ key.swapaxes(-1, -2)) / np.sqrt(query.shape[-1])
    half = scores.shape[-1] // 2
    for part in (scores[..., :half], scores[..., half:]):
        with np.errstate(over="ignore"):
            exps = np.exp((scores - part.max(-1, keepdims=True)).astype(np.float32))
        assert np.isinf(exps).any()


def test_scores_that_cannot_lead_are_drawn_once(load_torch: Load) -> None:
    task = load_torch(CAPPED)
    scale = task.dev.scale_of(Family.BIG)
    assert not scale.leads
    assert not scale.sinks
    drawn, once = draw_trial(task.dev, 5, scale), task.dev.sampler.draw(5, scale)
    assert all(np.array_equal(drawn[name], once[name]) for name in once)


def test_best_of_all_draws_is_taken_where_none_leads_far() -> None:
    task = load_task(find_path("l2-mqa-decode-bf16"))
    scale = task.dev.scale_of(Family.STANDARD)
    asked: list[int] = []

    class Asked:
        def draw(self, seed: int, _scale: object) -> dict[str, NDArray[Any]]:
            asked.append(seed)
            return task.dev.sampler.draw(seed, scale)

    shapes = replace(task.dev, sampler=Asked())
    taken = draw_trial(shapes, 5, replace(scale, leads=True))
    assert len(set(asked)) == DRAWS_MAX
    assert isinstance(shapes.reference, WatchedReference)
    leads = [shapes.reference.find_reach(task.dev.sampler.draw(seed, scale)).lead for seed in asked]
    assert shapes.reference.find_reach(taken).lead == max(leads)


def test_untrusted_task_draws_what_a_trusted_one_does() -> None:
    path = find_path("l2-mqa-decode-bf16")
    trusted = load_task(path)
    (trial,) = [t for t in make_trials(trusted, 1) if t.family is Family.BIG]
    wanted = trial.inputs(trusted)
    with TaskHost() as host:
        drawn = trial.inputs(load_untrusted_task(path, host=host))
    assert all(np.array_equal(drawn[name], wanted[name]) for name in wanted)


def test_maximum_from_zero_behind_a_linear_layer_fails_in_nearly_every_low_trial() -> None:
    task = load_task(find_path("l2-linear-softmax"))
    seen = []
    for seed in SEEDS:
        (trial,) = [t for t in make_trials(task, seed) if t.family is Family.LOW]
        inputs = trial.inputs(task)
        scores = inputs["x"].astype(np.float64) @ inputs["weight"]
        seen.append((scores.max(axis=-1) < UNDERFLOWS_BY).any())
    assert sum(seen) >= len(seen) - 1


def test_low_trials_are_only_where_big_ones_have_no_row_below_zero() -> None:
    families = [t.family for t in make_trials(load_task(find_path("l2-sdpa-full-bf16")), 1)]
    assert Family.LOW not in families
