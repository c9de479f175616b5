"""Scores over attempts, against figures worked out by hand."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_agent.base.seeds import rng_for
from nki_agent.bench.attempt import Attempt, Cost, Proof, ShapeSpeed
from nki_agent.bench.intervals import bootstrap, median, wilson
from nki_agent.bench.scores import pass_at, score
from nki_agent.verify.verdict import Stage

RNG = rng_for(0, "scores")


def make_attempt(
    task: str,
    *,
    stage: Stage | None = Stage.RIGHT,
    sample: int = 0,
    speedups: tuple[float, ...] = (),
    proof: Proof = Proof.RIGHT,
    cost: Cost | None = None,
) -> Attempt:
    speeds = tuple(
        ShapeSpeed(
            shapes=f"perf {number}",
            latency_ns=100.0,
            bound_ns=50.0,
            percent_of_bound=50.0,
            baseline_ns=100.0 * speedup,
        )
        for number, speedup in enumerate(speedups)
    )
    return Attempt(
        task=task,
        task_hash="",
        level=int(task[1]),
        category="norm",
        target="trn2",
        sample=sample,
        root_seed=1,
        stage=stage,
        end="solved",
        proof=proof,
        speeds=speeds,
        cost=cost or Cost(),
    )


def test_task_without_an_attempt_counts_as_failed() -> None:
    found = score(["l1-a", "l1-b", "l1-c", "l1-d"], [make_attempt("l1-a")], rng=RNG)
    assert (found.tasks, found.attempts) == (4, 1)
    assert found.right.value == found.compiled.value == 0.25
    assert found.fast == {}
    assert found.mean_speedup is None


def test_compiled_and_right_are_told_apart() -> None:
    stages = [Stage.RIGHT, Stage.WRONG, Stage.UNFIT, None]
    tasks = [f"l1-{number}" for number in range(4)]
    attempts = [make_attempt(t, stage=s) for t, s in zip(tasks, stages, strict=True)]
    found = score(tasks, attempts, rng=RNG)
    assert (found.compiled.value, found.right.value) == (0.5, 0.25)


def test_fast_is_strict_and_needs_the_perf_shapes() -> None:
    attempts = [
        make_attempt("l1-a", speedups=(1.0,)),
        make_attempt("l1-b", speedups=(1.01,)),
        make_attempt("l1-c", speedups=(9.0,), proof=Proof.UNTRIED),
        make_attempt("l1-d", speedups=(9.0,), proof=Proof.WRONG),
        make_attempt("l1-e", speedups=(9.0,), stage=Stage.WRONG),
    ]
    found = score([a.task for a in attempts], attempts, rng=RNG)
    assert found.fast["1"].value == pytest.approx(0.2)
    assert found.fast["2"].value == 0


def test_mean_speedup_counts_slow_and_wrong_as_nothing() -> None:
    attempts = [
        make_attempt("l1-a", speedups=(3.0,)),
        make_attempt("l1-b", speedups=(0.9,)),
        make_attempt("l1-c", stage=Stage.WRONG),
    ]
    found = score([a.task for a in attempts], attempts, rng=RNG)
    assert found.mean_speedup is not None
    assert found.mean_speedup.value == pytest.approx(1.0)


def test_shapes_of_a_task_have_their_geometric_mean() -> None:
    assert make_attempt("l1-a", speedups=(2.0, 8.0)).speedup == pytest.approx(4.0)
    assert make_attempt("l1-a").speedup is None


def test_costs_are_told_by_task_and_by_solved_task() -> None:
    cost = Cost(turns=2, input_tokens=90, output_tokens=10, usd=0.5, wall_s=3.0)
    attempts = [
        make_attempt("l1-a", cost=cost),
        make_attempt("l1-b", cost=cost, stage=Stage.REFUSED),
    ]
    found = score(["l1-a", "l1-b"], attempts, rng=RNG)
    assert (found.tokens_per_task, found.tokens_per_solved) == (100, 200)
    assert (found.usd_per_task, found.usd_per_solved) == (0.5, 1.0)
    assert found.turns is not None
    assert found.turns.value == 2


@given(attempts=st.integers(1, 8), data=st.data())
def test_pass_at_is_the_share_of_draws_with_a_right_one(attempts: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, attempts))
    k = data.draw(st.integers(1, attempts))
    draws = list(itertools.combinations(range(attempts), k))
    hits = sum(any(place < right for place in draw) for draw in draws)
    assert math.isclose(pass_at(k, attempts=attempts, right=right), hits / len(draws))


def test_pass_at_more_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="pass@3 of 2"):
        pass_at(3, attempts=2, right=1)


def test_pass_at_is_told_up_to_the_number_of_attempts() -> None:
    attempts = [
        make_attempt("l1-a", sample=sample, stage=stage)
        for sample, stage in enumerate([Stage.RIGHT, Stage.WRONG, Stage.WRONG])
    ]
    found = score(["l1-a"], attempts, rng=RNG)
    assert list(found.pass_at) == [1, 2]
    assert found.pass_at[1].value == pytest.approx(1 / 3)
    assert found.pass_at[2].value == pytest.approx(2 / 3)
    assert found.right.value == pytest.approx(1 / 3)


def test_wilson_is_that_of_the_literature() -> None:
    # Newcombe (1998), table I: 81 of 263, and 0 of 20.
    found = wilson(81, 263)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    assert round(wilson(0, 20).high, 4) == 0.1611


@given(total=st.integers(1, 400), data=st.data())
def test_wilson_holds_its_share(total: int, data: st.DataObject) -> None:
    found = wilson(data.draw(st.integers(0, total)), total)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_bootstrap_holds_the_true_figure_as_often_as_it_says() -> None:
    hits = 0
    for number in range(200):
        values = rng_for(1, number).normal(3.0, 2.0, 40)
        found = bootstrap(list(values), lambda v: np.asarray(v.mean(-1)), rng=rng_for(2, number))
        hits += found.low <= 3.0 <= found.high
    assert 178 <= hits <= 199


def test_bootstrap_of_equal_values_is_a_point() -> None:
    found = bootstrap([2.0] * 5, median, rng=RNG)
    assert (found.low, found.value, found.high) == (2.0, 2.0, 2.0)
