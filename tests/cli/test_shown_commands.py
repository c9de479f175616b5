"""Commands that are shown can be copied: paths are one word each, whatever they hold."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.agent.tiny import RIGHT, WRONG
from tests.cli.calling import call, use, write_kernel, write_script, write_task

_COMMAND = re.compile(r"nki-agent ((?:profile|show|resume|fix) [^`\n]+)")


def find_commands(text: str) -> list[list[str]]:
    return [shlex.split(found) for found in _COMMAND.findall(text)]


def test_shown_commands_work_where_paths_have_spaces(tmp_path: Path) -> None:
    folder = tmp_path / "my runs ü $HOME"
    folder.mkdir()
    model = write_script(folder, use("submit", source=RIGHT))
    solved = call("solve", write_task(folder), "--model", model, "--runs", folder / "runs")
    commands = find_commands(solved.out)
    assert [command[0] for command in commands] == ["profile", "show"]
    assert [call(*command).code for command in commands] == [0, 0]


def test_shown_command_of_a_stopped_run_works_where_paths_have_spaces(tmp_path: Path) -> None:
    folder = tmp_path / "my runs"
    folder.mkdir()
    model = write_script(folder, use("submit", source=RIGHT))
    given = ("--model", model, "--runs", folder / "runs", "--budget-tokens", 0)
    task, kernel = write_task(folder), write_kernel(folder, WRONG)
    for command in (("solve", task), ("fix", kernel, "--task", task)):
        (shown,) = find_commands(call(*command, *given).out)
        assert call(*shown, "--budget-tokens", 1).code == 0
    (shown,) = find_commands(call("optimize", kernel, "--task", task).err)
    assert shown == ["fix", str(kernel), "--task", str(task)]
