"""How often the cause that a failure report names is the planted one."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.task.cause import Case, Cause
from nki_agent.task.comparison import Comparison
from nki_agent.task.pattern import guess_pattern
from tests.task.planted import MORE_SHAPES, SHAPES, Planted, plant_all

NAMED_MIN, OTHER_MAX = 0.9, 0.03
KIND_NAMED_MIN = 0.75
NUM_KINDS_MIN = 30
TEXT_BYTES_MAX = 1200

Judged = list[tuple[Planted, Comparison]]


def judge_all(seed: int, shapes: tuple[tuple[int, ...], ...]) -> Judged:
    judged = ((p, p.judge()) for p in plant_all(seed, shapes=shapes))
    return [(p, found) for p, found in judged if not found.right]


@pytest.fixture(scope="module")
def judged() -> Judged:
    return judge_all(1, SHAPES)


def count(judged: Judged) -> Iterator[tuple[Planted, str]]:
    for planted, found in judged:
        assert found.mismatch is not None
        cause = found.mismatch.pattern.cause
        yield planted, "named" if cause is planted.cause else "none" if cause is None else "other"


def require_precision(judged: Judged) -> None:
    counts = Counter(result for _, result in count(judged))
    assert counts["named"] >= NAMED_MIN * counts.total(), counts
    assert counts["other"] <= OTHER_MAX * counts.total(), counts


def test_named_cause_is_nearly_always_the_planted_one(judged: Judged) -> None:
    require_precision(judged)


def test_no_kind_of_fault_is_missed(judged: Judged) -> None:
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for planted, result in count(judged):
        kinds[planted.kind][result] += 1
    assert len(kinds) >= NUM_KINDS_MIN
    poor = {k: c for k, c in kinds.items() if c["named"] < KIND_NAMED_MIN * c.total()}
    assert poor == {}


def test_every_cause_is_planted(judged: Judged) -> None:
    assert {planted.cause for planted, _ in judged} == set(Cause)


def test_report_fits_a_models_context(judged: Judged) -> None:
    for _, found in judged:
        assert found.mismatch is not None
        what = f"output `{'y' * 40}` in trial 0 (standard inputs, seed {2**63}): {found.reason}"
        text = str(
            Diagnostic(
                code="NK501", what=f"{what}; {found.mismatch}", hint=str(found.mismatch.pattern)
            )
        )
        assert len(text.encode()) <= TEXT_BYTES_MAX
        assert "…" not in text


@pytest.mark.parametrize("shape", [(1,), (7,), (1, 1), (3, 1), (1, 5), (2, 2, 2), (1, 300)])
def test_small_output_is_explained_without_an_error(shape: tuple[int, ...]) -> None:
    wanted = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    for got in (wanted * 2, wanted + 1, wanted[::-1], np.zeros(shape), np.full(shape, np.inf)):
        bad = np.atleast_1d(got != wanted)
        assert isinstance(str(guess_pattern(Case(expected=wanted, actual=got, bad=bad))), str)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [2, 3])
def test_named_cause_is_the_planted_one_on_other_shapes_and_draws(seed: int) -> None:
    require_precision(judge_all(seed, MORE_SHAPES))
