"""Groups: both outcomes are kept, and levels open when they should."""

from __future__ import annotations

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import rng_for
from nki_agent.corpus.record import BoundKind, CorpusTask, Family, Split
from nki_agent.train.config import CurriculumPart, GrpoConfig, HardwarePart, ModelPart
from nki_agent.train.groups import is_equal, pick, plan_tasks, require_whole_groups


def row(number: int, level: int) -> CorpusTask:
    return CorpusTask(
        id=f"t{number}",
        source="",
        sha256="",
        family=Family.ELEMENTWISE,
        pattern="chain",
        operators=(),
        level=level,
        rank=2,
        dtype="float32",
        tolerance="F1",
        bound=BoundKind.MEMORY,
        bound_ns=1.0,
        graph=str(number),
        split=Split.TRAIN,
    )


ROWS = [row(n, level=1 + n % 3) for n in range(30)]


def plan(curriculum: CurriculumPart, *, steps: int = 10) -> list[CorpusTask]:
    rng = rng_for(0, "plan")
    return plan_tasks(ROWS, curriculum, steps=steps, tasks_per_step=4, rng=rng)


def test_levels_open_at_their_share_of_the_steps() -> None:
    planned = plan(CurriculumPart(levels=(1, 2, 3), open_at=(0.0, 0.3, 0.6)))
    levels = [{r.level for r in planned[4 * step : 4 * step + 4]} for step in range(10)]
    assert all(found == {1} for found in levels[:3])
    assert all(3 not in found for found in levels[:6])
    assert 2 in set.union(*levels[3:6])
    assert 3 in set.union(*levels[6:])


def test_no_task_comes_twice_before_all_came_once() -> None:
    planned = plan(CurriculumPart(), steps=7)
    assert len({r.id for r in planned}) == 28


def test_a_plan_is_the_same_every_time() -> None:
    assert plan(CurriculumPart()) == plan(CurriculumPart())


def test_a_curriculum_that_opens_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="opens no level with tasks at the first step"):
        plan(CurriculumPart(levels=(1,), open_at=(0.5,)))


def test_pick_keeps_the_rare_outcome() -> None:
    values = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert 5 in pick(values, 4)
    assert len(pick(values, 4)) == 4


def test_pick_takes_half_and_half_where_it_can() -> None:
    values = [1.0] * 6 + [0.0] * 6
    taken = pick(values, 4)
    assert sorted(values[i] for i in taken) == [0.0, 0.0, 1.0, 1.0]


def test_pick_takes_what_was_lost_only_when_nothing_else_is_left() -> None:
    assert pick([None, 0.5, None, 0.1], 2) == [1, 3]
    assert pick([None, 0.5, None, None], 2) == [0, 1]


def test_groups_with_one_reward_are_equal_and_others_are_not() -> None:
    assert is_equal([0.3, 0.3, None])
    assert is_equal([None, None])
    assert not is_equal([0.3, 0.30001])


def config(*, tasks_per_step: int, batch: int, gpus: int = 0) -> GrpoConfig:
    return GrpoConfig(
        model=ModelPart(path="m"),
        tasks="t",
        hardware=HardwarePart(gpus=gpus),
        attempts=4,
        tasks_per_step=tasks_per_step,
        batch=batch,
    )


def test_processes_on_the_cpu_share_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert require_whole_groups(config(tasks_per_step=4, batch=4)) == 8
    with pytest.raises(UsageError, match="3 tasks a step can't be spread over 2 processes"):
        require_whole_groups(config(tasks_per_step=3, batch=4))


def test_a_group_stays_on_one_device() -> None:
    assert require_whole_groups(config(tasks_per_step=8, batch=4, gpus=8)) == 4
    with pytest.raises(UsageError, match="6 tasks a step can't be spread over 4 processes"):
        require_whole_groups(config(tasks_per_step=6, batch=4, gpus=4))
    with pytest.raises(UsageError, match="`batch` is 5"):
        require_whole_groups(config(tasks_per_step=4, batch=5))
