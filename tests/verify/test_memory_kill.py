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


CPU_TICKS = 20
"""A child that has computed for so long is in its endless kernel: the jail stands."""


def find_busy(judge: Judge) -> int | None:
    """The child of the sandbox that traces, once it has done so for a while."""
    zygote = judge._sandbox.pid
    children = Path(f"/proc/{zygote}/task/{zygote}/children")
    if zygote is None or not (pids := children.read_text().split()):
        return None
    # The fields after the name, which may hold anything, are without it: `utime` is the twelfth.
    fields = Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()
    return int(pids[0]) if int(fields[11]) >= CPU_TICKS else None


@contextmanager
def killing(judge: Judge, counters: Path, *, num_kills: int) -> Iterator[None]:
    """Kill the first child of the sandbox, and write what Linux then counts."""
    pause = threading.Event()

    def kill() -> None:
        for _ in range(1000):
            pid = find_busy(judge)
            if pid is not None:
                counters.write_text(COUNTERS.format(num_kills))
                os.kill(pid, signal.SIGKILL)
                return
            pause.wait(0.01)

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
