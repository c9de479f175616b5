"""The agent's tools through a farm say what one judge says."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from nki_agent.agent.judging import FarmJudging, OneJudge
from nki_agent.base.errors import TaskError
from nki_agent.chip.spec import Target
from nki_agent.farm.local import LocalExecutor
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from tests.agent.tiny import CHEAT, RIGHT, WRONG, load_tiny, write_task


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    with LocalExecutor(workers=1) as executor:
        yield executor


@pytest.mark.parametrize("source", [CHEAT, RIGHT, WRONG])
def test_farm_judges_and_looks_as_one_judge_does(
    executor: LocalExecutor, source: str, tmp_path: Path
) -> None:
    kernel, task = Kernel.from_text(source), load_tiny(tmp_path)
    many = FarmJudging(executor=executor, task=write_task(tmp_path), target=Target.TRN2)
    with Judge(target=Target.TRN2) as judge:
        one = OneJudge(judge, task)
        for judging in (many, one):
            assert asyncio.run(judging.look(kernel)) == asyncio.run(one.look(kernel))
        verdicts = [asyncio.run(j.judge(kernel, root_seed=3)) for j in (many, one)]
    first, second = (msgspec.structs.replace(v, wall_ms=0.0) for v in verdicts)
    assert first == second


def test_task_that_cannot_be_used_is_an_error_of_the_task(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    path = tmp_path / "broken.py"
    path.write_text("1 / 0\n")
    judging = FarmJudging(executor=executor, task=path, target=Target.TRN2)
    with pytest.raises(TaskError, match="division by zero"):
        asyncio.run(judging.look(Kernel.from_text(RIGHT)))
