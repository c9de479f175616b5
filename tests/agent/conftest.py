from collections.abc import Iterator
from pathlib import Path

import pytest

from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from tests.agent.tiny import load_tiny


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder: Path = tmp_path_factory.mktemp("task")
    return load_tiny(folder)


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with Judge(target=Target.TRN2) as judge:
        yield judge
