"""Loads task files from text and judges what the built-in author writes for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Verdict

MakeTask = Callable[[str], Task]


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """A task from the text of its file."""

    def make(source: str) -> Task:
        path = tmp_path / "task.py"
        path.write_text(source, encoding="utf-8")
        return load_task(path)

    return make


@pytest.fixture(scope="session")
def judges() -> Iterator[dict[Target, Judge]]:
    """A judge for each target, started when it is first asked for."""
    made = _Judges()
    yield made
    for judge in made.values():
        judge.close()


class _Judges(dict[Target, Judge]):
    def __missing__(self, target: Target) -> Judge:
        self[target] = Judge(target=target, allow_unsandboxed=True)
        return self[target]


@pytest.fixture
def solve(judges: dict[Target, Judge]) -> Callable[..., Verdict]:
    """The verdict on what the author writes for a task."""

    def run(task: Task, target: Target = Target.TRN2) -> Verdict:
        source = write_kernel(task, target)
        return judges[target].judge(Kernel.from_text(source), task, root_seed=1)

    return run
