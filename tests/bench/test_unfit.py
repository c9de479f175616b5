"""Every task of the benchmark passes the lint: kernels for it can be judged."""

from pathlib import Path

import pytest

import nki_agent.bench
from nki_agent.task.lint import lint_task
from nki_agent.task.loader import load_task

TASKS = sorted((Path(nki_agent.bench.__file__).parent / "tasks").glob("*.py"))
KNOWN_NOTES = {
    "l2-kl-div-rows": "tiny trials scale inputs by 0.1",
    "l2-softmax-bwd": "big trials scale inputs by 4",
    "l3-attention-backward": "big trials scale inputs by 2",
    "l3-resnet-bottleneck-bf16": "tolerance B3 is tight",
}
"""What loading says of a task, where it says anything: families that its reference cannot take."""


def test_there_are_250_tasks() -> None:
    assert [sum(p.name.startswith(f"l{n}-") for p in TASKS) for n in (1, 2, 3)] == [100, 100, 50]


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_task_is_fit(path: Path) -> None:
    task = load_task(path)
    assert lint_task(task) == ()
    known = KNOWN_NOTES.get(path.stem)
    assert [note for note in task.notes if known is None or not note.startswith(known)] == []
