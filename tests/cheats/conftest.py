"""One judge with little patience, and one task, for all tricks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest

from nki_agent.chip.spec import Target
from nki_agent.sandbox.outcome import Limits
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from tests.cheats.trick import SOFTMAX, TASKS
from tests.judging import load_softmax

# Hostile source, named *.py: pytest would import it to look for doctests.
collect_ignore_glob = [
    f"{folder}{end}" for folder in ("kernels", "escapes", "tasks") for end in ("", "/*")
]


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """A judge for trn2 that gives a kernel one second of CPU time."""
    limits = Limits(seconds=5.0, cpu_seconds=1, memory_bytes=1 << 30)
    with Judge(target=Target.TRN2, limits=limits) as judge:
        yield judge


LoadTask = Callable[[str], Task]


@pytest.fixture(scope="session")
def load(softmax: Task) -> LoadTask:
    """The task of a name, loaded once."""

    @functools.cache
    def load_named(name: str) -> Task:
        return softmax if name == SOFTMAX else load_task(TASKS / f"{name}.py")

    return load_named


@pytest.fixture(scope="session")
def softmax(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Row softmax of [200, 96] in float32."""
    return load_softmax(tmp_path_factory.mktemp("task"))
