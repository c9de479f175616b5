"""A tracing process that Linux killed for want of memory says nothing about its kernel."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nki_agent.base.errors import MachineError
from nki_agent.task.task import Task
from nki_agent.verify import compiling
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage
from tests.kernels import body

ENDLESS = Kernel.from_text(body("while True:\n    pass"))
COUNTERS = "pgfault 7\noom_kill {}\noom_kill_disable 0\n"


@contextmanager
def killing(judge: Judge, counters: Path, *, num_kills: int) -> Iterator[None]:
    """Kill the first child of the sandbox, and write what Linux then counts."""
    zygote = judge._sandbox.pid
    children = Path(f"/proc/{zygote}/task/{zygote}/children")

    def kill() -> None:
        for _ in range(300):
            pids = children.read_text().split()
            if pids:
                counters.write_text(COUNTERS.format(num_kills))
                os.kill(int(pids[0]), signal.SIGKILL)
                return
            pause.wait(0.01)

    pause = threading.Event()
    thread = threading.Thread(target=kill)
    thread.start()
    yield
    thread.join()


@pytest.fixture
def counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "vmstat"
    path.write_text(COUNTERS.format(3))
    monkeypatch.setattr(compiling, "VM_COUNTERS", path)
    return path


def test_kill_for_want_of_memory_is_the_machines_failure(
    judge: Judge, softmax: Task, counters: Path
) -> None:
    with killing(judge, counters, num_kills=4), pytest.raises(MachineError, match="out of memory"):
        judge.judge(ENDLESS, softmax, root_seed=1)


def test_kill_of_another_kind_is_the_kernels_failure(
    judge: Judge, softmax: Task, counters: Path
) -> None:
    with killing(judge, counters, num_kills=3):
        verdict = judge.judge(ENDLESS, softmax, root_seed=1)
    assert verdict.stage is Stage.UNTRACEABLE
    assert [d.code for d in verdict.diagnostics] == ["NK111"]


def test_counter_that_is_missing_counts_nothing(counters: Path) -> None:
    counters.write_text("pgfault 7\n")
    assert compiling.count_memory_kills() == 0
    counters.unlink()
    assert compiling.count_memory_kills() == 0
