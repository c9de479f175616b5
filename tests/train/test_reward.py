"""Rewards: what each pays, and that none falls along the ladder."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import rng_for
from nki_agent.train.outcome import Outcome
from nki_agent.train.reward import (
    REWARDS,
    compiles,
    cuda_agent,
    evokernel,
    find_reward,
    graded,
    makora,
    over_parent,
    right,
)
from nki_agent.verify.verdict import Hashes, OutputError, Stage, Trial, Verdict

LADDER = tuple(Stage)
PAIRS = 500


def fault(code: str = "NK301") -> Diagnostic:
    return Diagnostic(code=code, severity=Severity.ERROR, what="a fault")


def verdict(
    stage: Stage,
    *,
    faults: int = 1,
    ratio: float = 50.0,
    latency_ns: float = 1000.0,
    percent: float = 40.0,
    busy: dict[str, float] | None = None,
) -> Verdict:
    """A verdict of the stage, with what verdicts of that stage hold."""
    is_right = stage is Stage.RIGHT
    output = OutputError(
        name="y", right=is_right, ratio=0.5 if is_right else ratio, rel_l2=0.1, max_abs=1.0
    )
    trial = Trial(shapes="dev", number=0, family="standard", seed=1, outputs=(output,))
    return Verdict(
        stage=stage,
        task="t",
        target="trn2",
        diagnostics=() if is_right else (fault(),) * faults,
        trials=(trial,) if stage in (Stage.WRONG, Stage.RIGHT) else (),
        hashes=Hashes(kernel="k", task="t", program=None),
        root_seed=1,
        tool_version="test",
        latency_ns=latency_ns if is_right else None,
        percent_of_bound=percent if is_right else None,
        utilisation=(busy or {"vector": 0.5, "dma": 0.4}) if is_right else {},
        wall_ms=1.0,
    )


def outcome_of(stage: Stage, *, latency_ns: float = 1000.0) -> Outcome:
    return Outcome(
        verdict=verdict(stage, latency_ns=latency_ns),
        baseline_ns=2000.0,
        best_ns=1000.0,
        parent_ns=4000.0,
    )


def drawn(stage: Stage, rng: np.random.Generator) -> Verdict:
    """Any verdict of the stage: a hopeless or a nearly finished one."""
    return verdict(
        stage,
        faults=int(rng.integers(1, 30)),
        ratio=float(rng.choice([1.001, 1.0 + rng.random(), 10 ** rng.uniform(0, 12), math.inf])),
        latency_ns=float(10 ** rng.uniform(1, 9)),
        percent=float(rng.uniform(0, 130)),
        busy={name: float(rng.random()) for name in ("tensor", "vector", "scalar", "dma")},
    )


@pytest.mark.parametrize("name", REWARDS)
def test_no_reward_falls_along_the_ladder_on_500_planted_pairs(name: str) -> None:
    reward = REWARDS[name]
    for number in range(PAIRS):
        rng = rng_for(0, "planted pairs", name, number)
        low, high = sorted(rng.choice(len(LADDER), size=2, replace=False))
        around = Outcome(
            verdict=None,
            baseline_ns=float(10 ** rng.uniform(1, 9)),
            best_ns=float(10 ** rng.uniform(1, 9)) if rng.random() < 0.8 else None,
            parent_ns=float(10 ** rng.uniform(1, 9)) if rng.random() < 0.5 else None,
        )
        worse = replace(around, verdict=drawn(LADDER[low], rng))
        better = replace(around, verdict=drawn(LADDER[high], rng))
        assert reward(worse) <= reward(better), (name, number, worse, better)


def test_graded_rises_along_the_ladder_even_with_more_bad_calls() -> None:
    for number in range(PAIRS):
        rng = rng_for(0, "bad calls", number)
        low, high = sorted(rng.choice(len(LADDER), size=2, replace=False))
        worse = Outcome(verdict=drawn(LADDER[low], rng))
        better = Outcome(
            verdict=drawn(LADDER[high], rng),
            repeated_calls=int(rng.integers(0, 9)),
            malformed_calls=int(rng.integers(0, 9)),
        )
        assert graded(worse) < graded(better), (number, worse, better)


@pytest.mark.parametrize("name", REWARDS)
def test_a_cheat_is_never_worth_more_than_no_kernel(name: str) -> None:
    without = Outcome(verdict=None, baseline_ns=1.0, best_ns=1.0, parent_ns=1.0)
    cheat = replace(without, verdict=verdict(Stage.CHEAT))
    assert REWARDS[name](cheat) <= REWARDS[name](without)


def test_compiles_pays_a_wrong_kernel_like_a_right_one() -> None:
    assert [compiles(outcome_of(s)) for s in LADDER] == [0, 0, 0, 0, 1, 1]


def test_right_pays_only_a_right_kernel() -> None:
    assert [right(outcome_of(s)) for s in LADDER] == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("latency_ns", "paid"), [(2000.0, 1.0), (1905.0, 1.0), (1904.0, 2.0), (952.0, 3.0)]
)
def test_cuda_agent_pays_steps_at_five_percent(latency_ns: float, paid: float) -> None:
    assert cuda_agent(outcome_of(Stage.RIGHT, latency_ns=latency_ns)) == paid
    assert cuda_agent(outcome_of(Stage.WRONG)) == -1.0


def test_makora_is_the_sigmoid_of_validity_and_speedup() -> None:
    found = makora(outcome_of(Stage.RIGHT, latency_ns=2000.0 / 0.8))
    assert found == pytest.approx(0.5)
    assert makora(outcome_of(Stage.WRONG)) == 0.0


def test_evokernel_is_negative_for_a_kernel_slower_than_the_best() -> None:
    assert evokernel(outcome_of(Stage.RIGHT, latency_ns=1000.0)) == 0.0
    assert evokernel(outcome_of(Stage.RIGHT, latency_ns=500.0)) == pytest.approx(0.6)
    assert evokernel(outcome_of(Stage.RIGHT, latency_ns=2000.0)) == pytest.approx(-0.6)


def test_over_parent_is_the_speedup_over_the_parent() -> None:
    assert over_parent(outcome_of(Stage.RIGHT)) == 4.0
    assert over_parent(outcome_of(Stage.WRONG)) == 0.0


def test_graded_tells_apart_failures_that_compiles_pays_alike() -> None:
    failing = (
        Outcome(verdict=verdict(Stage.REFUSED, faults=9)),
        Outcome(verdict=verdict(Stage.REFUSED, faults=1)),
        Outcome(verdict=verdict(Stage.UNFIT)),
    )
    assert len({compiles(o) for o in failing}) == 1
    assert len({graded(o) for o in failing}) == len(failing)


def by_error(step: float) -> Verdict:
    return verdict(Stage.WRONG, ratio=1e6 / 10**step)


def by_bound(step: float) -> Verdict:
    return verdict(Stage.RIGHT, percent=10.0 * step)


def by_balance(step: float) -> Verdict:
    return verdict(Stage.RIGHT, busy={"vector": 1.0, "dma": step / 10})


@pytest.mark.parametrize("make", [by_error, by_bound, by_balance])
def test_graded_rises_with_each_step_towards_a_better_kernel(
    make: Callable[[float], Verdict],
) -> None:
    paid = [graded(Outcome(verdict=make(step))) for step in range(6)]
    assert paid == sorted(set(paid))


def test_graded_takes_for_repeated_and_malformed_calls_up_to_its_limit() -> None:
    clean = Outcome(verdict=verdict(Stage.WRONG))
    once = Outcome(verdict=verdict(Stage.WRONG), repeated_calls=1)
    both = Outcome(verdict=verdict(Stage.WRONG), repeated_calls=1, malformed_calls=1)
    endless = Outcome(verdict=verdict(Stage.WRONG), malformed_calls=1000)
    paid = [graded(o) for o in (endless, both, once, clean)]
    assert paid == sorted(set(paid))


def test_an_unknown_reward_is_named_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no reward `grade`[\s\S]*did you mean `graded`"):
        find_reward("grade")
