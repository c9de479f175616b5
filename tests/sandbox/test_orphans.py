"""Whoever asked for a process is killed: nothing that it has started lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.source import ROOT

GONE_SECONDS = 3.0
START_SECONDS = 40.0
HEAD = "import numpy as np\n"
ENDLESS_FILE = "while True:\n    pass\n"
ENDLESS_REFERENCE = (
    HEAD
    + "def reference(x):\n    while True:\n        pass\n\n\n"
    + "def inputs(rng):\n    return {'x': rng.standard_normal((64, 32)).astype(np.float32)}\n"
)


def now() -> float:
    return time.monotonic()  # noqa: TID251 - real processes take real time


def find_below(pid: int) -> list[int]:
    """All processes that a process has started, and theirs."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found += [child, *find_below(child)]
    return found


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def count_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = now() + seconds
    while not condition():
        if now() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(params=["as it is", "without bubblewrap"])
def path_variable(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "without bubblewrap" else os.environ["PATH"]


def kill_midway(
    arguments: list[str], path_variable: str, *, is_there: Callable[[list[int]], bool]
) -> list[int]:
    """Kill a command once its processes are as wanted; those that live on."""
    command = subprocess.Popen(
        [sys.executable, "-m", "nki_agent", *arguments],
        env={**os.environ, "PATH": path_variable},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert wait_until(lambda: is_there(find_below(command.pid)), START_SECONDS)
        below = find_below(command.pid)
    finally:
        command.send_signal(signal.SIGKILL)
        command.wait()
    wait_until(lambda: not any(map(is_alive, below)), GONE_SECONDS)
    return [pid for pid in below if is_alive(pid)]


def is_computing(pids: list[int]) -> bool:
    """Whether the youngest, the process of the task, has begun to loop."""
    try:
        return len(pids) > 1 and count_cpu_s(max(pids)) > 0.5
    except OSError:
        return False


def write(folder: Path, task: str) -> tuple[str, str]:
    path, kernel = folder / "task.py", folder / "kernel.py"
    path.write_text(task)
    kernel.write_text((ROOT / "examples" / "kernels" / "softmax.py").read_text())
    return str(path), str(kernel)


@pytest.mark.parametrize("task", [ENDLESS_FILE, ENDLESS_REFERENCE])
@pytest.mark.parametrize("num_kernels", [1, 2])
def test_endless_untrusted_task_does_not_outlive_the_command(
    tmp_path: Path, task: str, num_kernels: int, path_variable: str
) -> None:
    path, kernel = write(tmp_path, task)
    other = tmp_path / "other.py"
    other.write_text(Path(kernel).read_text() + "\n")
    kernels = [kernel, str(other)][:num_kernels]
    arguments = ["verify", *kernels, "--task", path, "--untrusted-task", "--workers", "1"]
    assert kill_midway(arguments, path_variable, is_there=is_computing) == []


@pytest.mark.parametrize("num_kernels", [1, 2])
def test_process_that_still_prepares_does_not_outlive_the_command(
    tmp_path: Path, num_kernels: int, path_variable: str
) -> None:
    path, kernel = write(tmp_path, ENDLESS_FILE)
    other = tmp_path / "other.py"
    other.write_text(Path(kernel).read_text() + "\n")
    kernels = [kernel, str(other)][:num_kernels]
    arguments = ["verify", *kernels, "--task", path, "--untrusted-task", "--workers", "1"]
    assert kill_midway(arguments, path_variable, is_there=bool) == []
