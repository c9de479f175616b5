"""`--untrusted-task`: a task file that nobody has read."""

from pathlib import Path

import pytest

from tests.agent.tiny import RIGHT
from tests.cli.calling import call, write_kernel, write_task

HOSTILE = "open('/tmp/nki-agent-task', 'w')\n"


@pytest.mark.parametrize("command", ["verify", "profile", "show"])
def test_untrusted_task_serves_every_command_that_reads_one(tmp_path: Path, command: str) -> None:
    kernel, task = write_kernel(tmp_path, RIGHT), write_task(tmp_path)
    called = call(command, kernel, "--task", task, "--untrusted-task")
    assert called.code == 0, called.err
    assert called.out


def test_untrusted_task_that_does_what_it_may_not_is_named(tmp_path: Path) -> None:
    kernel, task = write_kernel(tmp_path, RIGHT), write_task(tmp_path)
    task.write_text(HOSTILE + task.read_text())
    called = call("verify", kernel, "--task", task, "--untrusted-task")
    assert called.code == 2
    assert f"{task.name}:1" in called.err
    assert "PermissionError" in called.err
    assert not Path("/tmp/nki-agent-task").exists()


def test_built_in_author_takes_no_untrusted_task(tmp_path: Path) -> None:
    called = call("solve", write_task(tmp_path), "--untrusted-task", "--runs", tmp_path / "runs")
    assert called.code == 2
    assert "--model" in called.err
    assert not (tmp_path / "runs").exists()
