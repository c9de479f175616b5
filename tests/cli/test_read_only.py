"""Folders that cannot be written: each command says so in its own words, and ends with 2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from nki_agent.agent.folder import make_run_folder
from nki_agent.base.clock import SystemClock
from tests.agent.tiny import RIGHT
from tests.cli.calling import call, use, write_kernel, write_script, write_task

# Root may write everywhere, but for what it gives up.
GIVEN_UP = ("setpriv", "--bounding-set=-dac_override")


def run_as_user(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process that permissions bind, in a folder."""
    is_root = os.geteuid() == 0
    if is_root and shutil.which("setpriv") is None:
        pytest.skip("root cannot give up its rights here")
    command = [*(GIVEN_UP if is_root else ()), sys.executable, "-P", "-m", "nki_agent"]
    return subprocess.run(
        [*command, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task, a kernel and a run in folders that nobody may write to."""
    place = tmp_path / "given"
    place.mkdir()
    write_kernel(place)
    model = write_script(place, use("submit", source=RIGHT))
    called = call("solve", write_task(place), "--model", model, "--runs", tmp_path / "runs")
    assert called.code == 0, called.err
    (run,) = (tmp_path / "runs").iterdir()
    run.rename(place / "run")
    for path in (place / "run", place):
        path.chmod(0o555)
    return place


def test_read_only_folders_are_named(folder: Path) -> None:
    for arguments, words in (
        (("solve", "add_one.py"), "cannot write a run folder under `runs`"),
        (("workspace", "add_one.py", "space"), "cannot write the workspace `space`"),
        (("skill", "skill"), "cannot write the skill to `skill`"),
        (("report", "run"), "cannot write `run/report.html`"),
    ):
        ended = run_as_user(folder, *arguments)
        assert (ended.returncode, words in ended.stderr) == (2, True), ended.stderr


def test_task_in_a_read_only_folder_is_solved_elsewhere(folder: Path, tmp_path: Path) -> None:
    ended = run_as_user(folder, "solve", "add_one.py", "--runs", tmp_path / "runs")
    assert ended.returncode == 0, ended.stderr
    assert run_as_user(folder, "replay", "run").returncode == 0
    assert run_as_user(folder, "report", "run", "--out", tmp_path / "page.html").returncode == 0


class Config(msgspec.Struct):
    number: int = 1


def test_runs_that_begin_together_get_a_folder_each(tmp_path: Path) -> None:
    made: list[Path] = []
    barrier = threading.Barrier(8)

    def make() -> None:
        barrier.wait()
        folder = make_run_folder(
            tmp_path, kind="solve", subject="same", config=Config(), clock=SystemClock()
        )
        made.append(folder.path)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8
