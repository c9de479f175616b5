"""Jobs, processes and waiting, for the tests of the room."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nki_agent.farm.job import End, Job, Judged
from nki_agent.farm.local import LocalExecutor
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage
from tests.agent.tiny import RIGHT, TASK

PAUSE = threading.Event()
WAITS = 500
"""Looks, 20 ms apart, before a wait has failed."""


def write_task(folder: Path, *, name: str = "add_one", reference: str = "return x + 1.0") -> Path:
    """The tiny task with another body; `ARMED` in it is true when the file beside it is there."""
    path = folder / f"{name}.py"
    head = f"import os, time\n\nARMED = {str(folder / 'armed')!r}\n\n"
    path.write_text(head + TASK.replace("return x + 1.0", reference))
    return path


def make_job(task: Path, *, name: str = "one", source: str = RIGHT, seed: int | None = 1) -> Job:
    return Job(id=name, kernel=Kernel.from_text(source), task=task, root_seed=seed)


def stage_of(end: End) -> Stage:
    assert isinstance(end, Judged), end
    return end.verdict.stage


def wait_until(is_true: Callable[[], bool]) -> bool:
    return any(is_true() or PAUSE.wait(0.02) for _ in range(WAITS))


def find_children(pid: int | None) -> list[int]:
    with suppress(OSError):
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return []


def find_descendants(pid: int | None) -> list[int]:
    children = find_children(pid)
    return children + [below for child in children for below in find_descendants(child)]


def find_pool(executor: LocalExecutor) -> list[int]:
    assert executor.pid is not None
    return [executor.pid, *find_descendants(executor.pid)]


def find_worker(executor: LocalExecutor) -> int:
    """The only worker, once there is one."""
    assert wait_until(lambda: len(find_children(executor.pid)) == 1)
    return find_children(executor.pid)[0]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether it runs; one that only waits to be counted by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_gone(pids: list[int]) -> bool:
    return wait_until(lambda: not any(map(is_alive, pids)))
