"""Best of n: furthest, then fastest, then earliest; what all cost together."""

import pytest

from nki_agent.agent.best_of import choose_best, list_samples, sample_seed, sum_up_episodes
from nki_agent.agent.episode import End, Episode
from nki_agent.llm.protocol import Usage
from nki_agent.verify.verdict import Hashes, Stage, Verdict


def make(stage: Stage | None, *, latency_ns: float | None = None, kernel: str = "k") -> Episode:
    verdict = None
    if stage is not None:
        verdict = Verdict(
            stage=stage,
            task="t",
            target="trn2",
            diagnostics=(),
            trials=(),
            hashes=Hashes(kernel="", task="", program=None),
            root_seed=1,
            tool_version="0",
            latency_ns=latency_ns,
            wall_ms=1.0,
        )
    return Episode(
        end=End.SOLVED if stage is Stage.RIGHT else End.TURNS,
        message="",
        turns=3,
        usage=Usage(input_tokens=10, output_tokens=1),
        wall_ms=5.0,
        kernel=None if stage is None else kernel,
        verdict=verdict,
    )


NONE, WRONG = make(None), make(Stage.WRONG)
SLOW, FAST = make(Stage.RIGHT, latency_ns=9.0), make(Stage.RIGHT, latency_ns=4.0)


@pytest.mark.parametrize(
    ("episodes", "best"),
    [
        ((NONE, WRONG), 1),
        ((WRONG, WRONG), 0),
        ((WRONG, SLOW, FAST), 2),
        ((FAST, SLOW, FAST), 0),
        ((NONE, NONE), 0),
    ],
)
def test_best_is_furthest_then_fastest_then_earliest(
    episodes: tuple[Episode, ...], best: int
) -> None:
    assert choose_best(episodes) == best


def test_sum_has_the_best_kernel_and_the_cost_of_all() -> None:
    total = sum_up_episodes((WRONG, FAST, NONE))
    assert (total.turns, total.usage.input_tokens, total.wall_ms) == (9, 30, 15.0)
    assert total.verdict == FAST.verdict
    assert [s.stage for s in list_samples((WRONG, FAST, NONE))] == [
        Stage.WRONG,
        Stage.RIGHT,
        None,
    ]


def test_first_sample_has_the_seed_of_a_run_without_samples() -> None:
    assert sample_seed(7, 0) == 7
    assert len({sample_seed(7, n) for n in range(4)}) == 4
