"""The local executor: its four ends, and what survives what."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nki_agent.farm.dispatch import was_killed_by_others
from nki_agent.farm.job import Faulted, Job, Judged, Lost, Unusable
from nki_agent.farm.local import LocalExecutor
from nki_agent.farm.wire import Ended, FarmLimits
from nki_agent.verify.compiling import count_memory_kills
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage
from tests.agent.tiny import CHEAT, REFUSED, RIGHT, UNTRACEABLE, WRONG
from tests.farm.pool import (
    PAUSE,
    all_gone,
    find_children,
    find_pool,
    find_worker,
    kill,
    make_job,
    stage_of,
    wait_until,
    write_task,
)
from tests.source import ROOT

SLEEPING = "time.sleep(60 if os.path.exists(ARMED) else 0); return x + 1.0"
"""Loads at once, and hangs once the file `armed` is there."""
DYING = "os.path.exists(ARMED) and os.kill(os.getpid(), 9); return x + 1.0"
# What runs the tests in the background may ignore Ctrl-C, and its children inherit that.
CALLER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import sys
from pathlib import Path
from nki_agent.farm.local import LocalExecutor
from tests.farm.pool import find_pool, make_job
executor = LocalExecutor(workers=2)
task = Path(sys.argv[1])
assert executor.submit(make_job(task)).result().verdict.right
print(*find_pool(executor), flush=True)
if sys.argv[2] == "wait":
    (task.parent / "armed").touch()
    executor.submit(make_job(task)).result()
"""


@pytest.mark.parametrize(
    ("source", "stage"),
    [
        (RIGHT, Stage.RIGHT),
        (WRONG, Stage.WRONG),
        (CHEAT, Stage.CHEAT),
        (REFUSED, Stage.REFUSED),
        (UNTRACEABLE, Stage.UNTRACEABLE),
        ("x = '\ud800'\n", Stage.REFUSED),
    ],
)
def test_kernel_of_every_stage_is_judged(
    executor: LocalExecutor, tmp_path: Path, source: str, stage: Stage
) -> None:
    job = make_job(write_task(tmp_path), source=source)
    assert stage_of(executor.submit(job).result()) is stage


def test_given_seed_is_used_and_a_secret_one_differs(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    task = write_task(tmp_path)
    seeds = []
    for seed in (7, 7, None, None):
        end = executor.submit(make_job(task, seed=seed)).result()
        assert isinstance(end, Judged)
        seeds.append(end.verdict.root_seed)
    assert seeds[:2] == [7, 7]
    assert len(set(seeds)) == 3


def test_changed_task_file_is_loaded_again(executor: LocalExecutor, tmp_path: Path) -> None:
    assert stage_of(executor.submit(make_job(write_task(tmp_path))).result()) is Stage.RIGHT
    task = write_task(tmp_path, reference="return x + 2.0  # another one")
    assert stage_of(executor.submit(make_job(task)).result()) is Stage.WRONG


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("raise ValueError('no such luck')", "ValueError: no such luck"),
        ("return None", "returns nothing"),
        ("return open('/no/such/file')", "FileNotFoundError"),
    ],
)
def test_reference_that_fails_is_unusable(
    executor: LocalExecutor, tmp_path: Path, reference: str, says: str
) -> None:
    end = executor.submit(make_job(write_task(tmp_path, reference=reference))).result()
    assert isinstance(end, Unusable)
    assert says in end.message
    assert "hint:" not in end.message


def test_missing_task_file_is_unusable(executor: LocalExecutor, tmp_path: Path) -> None:
    end = executor.submit(make_job(tmp_path / "none.py")).result()
    assert isinstance(end, Unusable)
    assert "none.py" in end.message


@pytest.mark.parametrize("shortage", ["MemoryError", "OSError(28, 'No space left on device')"])
def test_reference_that_meets_a_shortage_is_lost(
    executor: LocalExecutor, tmp_path: Path, shortage: str
) -> None:
    end = executor.submit(make_job(write_task(tmp_path, reference=f"raise {shortage}"))).result()
    assert isinstance(end, Lost)
    assert "this machine" in end.reason or "memory" in end.reason


@pytest.mark.parametrize(
    "allocate",
    [
        "np.ones(2 << 30, np.uint8); return x + 1.0",
        "import torch; torch.ones(2 << 30, dtype=torch.uint8); return x + 1.0",
    ],
)
def test_worker_out_of_memory_is_lost(tmp_path: Path, allocate: str) -> None:
    task = write_task(tmp_path, reference=allocate)
    fine = write_task(tmp_path, name="fine")
    limits = FarmLimits(address_bytes=1 << 30)
    with LocalExecutor(workers=1, limits=limits) as executor:
        end = executor.submit(make_job(task)).result()
        assert isinstance(end, Lost)
        assert "out of memory" in end.reason
        assert stage_of(executor.submit(make_job(fine)).result()) is Stage.RIGHT


def test_killed_idle_worker_costs_nothing(executor: LocalExecutor, tmp_path: Path) -> None:
    job = make_job(write_task(tmp_path))
    executor.submit(job).result()
    before = find_worker(executor)
    kill(before)
    assert all_gone([before])
    assert stage_of(executor.submit(job).result()) is Stage.RIGHT
    assert find_worker(executor) != before


def test_job_of_a_killed_worker_is_done_by_another(tmp_path: Path) -> None:
    task = write_task(tmp_path, reference=SLEEPING)
    with LocalExecutor(workers=1) as executor:
        assert stage_of(executor.submit(make_job(task)).result()) is Stage.RIGHT
        armed = tmp_path / "armed"
        armed.touch()
        future = executor.submit(make_job(task))
        PAUSE.wait(0.5)
        assert future.running()
        armed.unlink()
        kill(find_worker(executor))
        assert stage_of(future.result()) is Stage.RIGHT


def test_worker_that_others_kill_is_not_counted_against_its_job(tmp_path: Path) -> None:
    task = write_task(tmp_path, reference=SLEEPING)
    with LocalExecutor(workers=1, limits=FarmLimits(attempts=1)) as executor:
        assert stage_of(executor.submit(make_job(task)).result()) is Stage.RIGHT
        armed = tmp_path / "armed"
        armed.touch()
        future = executor.submit(make_job(task))
        for left in range(3):
            PAUSE.wait(1.0)
            if left == 2:
                armed.unlink()
            kill(find_worker(executor))
        assert stage_of(future.result()) is Stage.RIGHT


@pytest.mark.parametrize(
    ("wait_status", "new_memory_kills", "by_others"),
    [
        (signal.SIGKILL, 0, True),
        (signal.SIGKILL, 1, False),
        (signal.SIGSEGV, 0, False),
        (256, 0, False),
    ],
)
def test_worker_is_killed_by_others_unless_memory_ran_out_or_it_crashed(
    wait_status: int, new_memory_kills: int, by_others: bool
) -> None:
    ended = Ended(token=1, wait_status=wait_status)
    before = count_memory_kills() - new_memory_kills
    assert was_killed_by_others(ended, memory_kills=before) is by_others


def test_job_that_kills_its_workers_is_lost_and_holds_up_nobody(tmp_path: Path) -> None:
    fine = write_task(tmp_path, name="fine")
    killing = write_task(tmp_path, name="killing", reference=DYING)
    (tmp_path / "armed").touch()
    with LocalExecutor(workers=1) as executor:
        killers = [executor.submit(make_job(killing)) for _ in range(2)]
        others = [executor.submit(make_job(fine)) for _ in range(3)]
        assert {stage_of(future.result()) for future in others} == {Stage.RIGHT}
        for future in killers:
            end = future.result()
            assert isinstance(end, Lost)
            assert "killed" in end.reason


def test_worker_killed_before_it_is_ready_is_not_counted_against_its_job(tmp_path: Path) -> None:
    """The first attempt costs one worker; a second kill must then find a job that has begun."""
    task = write_task(tmp_path)
    with LocalExecutor(workers=1, limits=FarmLimits(attempts=1)) as executor:
        executor.submit(make_job(task)).result()
        kill(find_worker(executor))
        assert wait_until(lambda: not find_children(executor.pid))
        prepared = executor.pid
        assert prepared is not None
        os.kill(prepared, signal.SIGSTOP)
        future = executor.submit(make_job(task))
        assert wait_until(future.running)
        kill(prepared)
        assert stage_of(future.result()) is Stage.RIGHT


def test_machine_that_cannot_start_a_worker_loses_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with LocalExecutor(workers=1) as executor:
        end = executor.submit(make_job(write_task(tmp_path))).result()
    assert isinstance(end, Lost)
    # Which of the two is heard first is chance: the end of the process, or that nobody listens.
    assert re.search("ended with status 1|cannot be reached", end.reason)


def test_killed_prepared_process_is_replaced(tmp_path: Path) -> None:
    task = write_task(tmp_path, reference=SLEEPING)
    with LocalExecutor(workers=2) as executor:
        assert stage_of(executor.submit(make_job(task)).result()) is Stage.RIGHT
        armed = tmp_path / "armed"
        armed.touch()
        futures = [executor.submit(make_job(task)) for _ in range(3)]
        assert wait_until(lambda: len(find_children(executor.pid)) == 2)
        PAUSE.wait(0.5)
        armed.unlink()
        pool = find_pool(executor)
        kill(pool[0])
        assert {stage_of(future.result()) for future in futures} == {Stage.RIGHT}
        assert all_gone(pool)


def test_killed_sandbox_of_a_worker_is_replaced(executor: LocalExecutor, tmp_path: Path) -> None:
    job = make_job(write_task(tmp_path))
    executor.submit(job).result()
    worker = find_worker(executor)
    (zygote,) = find_children(worker)
    kill(zygote)
    assert all_gone([zygote])
    assert stage_of(executor.submit(job).result()) is Stage.RIGHT
    assert find_worker(executor) == worker


def test_hung_worker_is_lost_after_the_limit(tmp_path: Path) -> None:
    task = write_task(tmp_path, reference=SLEEPING)
    fine = write_task(tmp_path, name="fine")
    with LocalExecutor(workers=1, limits=FarmLimits(job_seconds=2.0)) as executor:
        assert stage_of(executor.submit(make_job(task)).result()) is Stage.RIGHT
        (tmp_path / "armed").touch()
        hung = executor.submit(make_job(task))
        other = executor.submit(make_job(fine))
        assert hung.result() == Lost("no verdict within 2 s")
        assert stage_of(other.result()) is Stage.RIGHT


def test_stopped_worker_is_lost_after_the_limit(tmp_path: Path) -> None:
    task = write_task(tmp_path)
    with LocalExecutor(workers=1, limits=FarmLimits(job_seconds=2.0)) as executor:
        executor.submit(make_job(task)).result()
        worker = find_worker(executor)
        os.kill(worker, signal.SIGSTOP)
        assert stage_of(executor.submit(make_job(task)).result()) is Stage.RIGHT
        assert all_gone([worker])


def test_grown_worker_is_replaced_after_its_job(tmp_path: Path) -> None:
    task = write_task(
        tmp_path, reference="globals().setdefault('kept', bytearray(80 << 20)); return x + 1.0"
    )
    with LocalExecutor(workers=1, limits=FarmLimits(growth_bytes=60 << 20)) as executor:
        assert stage_of(executor.submit(make_job(task)).result()) is Stage.RIGHT
        assert wait_until(lambda: not find_children(executor.pid))
        assert stage_of(executor.submit(make_job(task)).result()) is Stage.RIGHT


def test_waiting_job_can_be_cancelled_and_a_running_one_not(tmp_path: Path) -> None:
    task = write_task(tmp_path)
    with LocalExecutor(workers=1) as executor:
        first, second, third = (executor.submit(make_job(task)) for _ in range(3))
        assert wait_until(first.running)
        assert second.cancel()
        assert not first.cancel()
        assert stage_of(first.result()) is Stage.RIGHT
        assert stage_of(third.result()) is Stage.RIGHT


def test_closing_cancels_what_waits_and_gives_up_what_runs(tmp_path: Path) -> None:
    task = write_task(tmp_path, reference=SLEEPING)
    executor = LocalExecutor(workers=1)
    assert stage_of(executor.submit(make_job(task)).result()) is Stage.RIGHT
    (tmp_path / "armed").touch()
    running, waiting = executor.submit(make_job(task)), executor.submit(make_job(task))
    assert wait_until(running.running)
    pool = find_pool(executor)
    executor.close()
    executor.close()
    assert running.result() == Lost("the farm was closed")
    assert waiting.cancelled()
    assert all_gone(pool)
    with pytest.raises(RuntimeError, match="closed"):
        executor.submit(make_job(task))


def test_farm_without_a_job_starts_nothing() -> None:
    with LocalExecutor(workers=1) as executor:
        assert executor.pid is None


def test_forgotten_farm_ends_its_processes(tmp_path: Path) -> None:
    executor = LocalExecutor(workers=1)
    executor.submit(make_job(write_task(tmp_path))).result()
    pool = find_pool(executor)
    del executor
    assert all_gone(pool)


def test_fork_of_the_caller_may_not_use_its_farm(executor: LocalExecutor, tmp_path: Path) -> None:
    job = make_job(write_task(tmp_path))
    executor.submit(job).result()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            executor.close()
            executor.submit(job)
        except RuntimeError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert stage_of(executor.submit(job).result()) is Stage.RIGHT


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, None])
def test_caller_that_ends_takes_its_processes_with_it(
    tmp_path: Path, end: signal.Signals | None
) -> None:
    task = write_task(tmp_path, reference=SLEEPING)
    with subprocess.Popen(
        [sys.executable, "-c", CALLER, str(task), "end" if end is None else "wait"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as caller:
        assert caller.stdout is not None
        pool = [int(pid) for pid in caller.stdout.readline().split()]
        assert len(pool) >= 3  # prepared process, worker, its sandbox in its rings
        if end is not None:
            PAUSE.wait(0.5)
            caller.send_signal(end)
        caller.wait(20)
    assert all_gone(pool)


def test_many_threads_may_submit(tmp_path: Path) -> None:
    task = write_task(tmp_path)
    stages: list[Stage] = []
    with LocalExecutor(workers=2) as executor:

        def ask() -> None:
            stages.extend(stage_of(executor.submit(make_job(task)).result()) for _ in range(3))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert stages == [Stage.RIGHT] * 12


def test_future_can_be_awaited(executor: LocalExecutor, tmp_path: Path) -> None:
    job = make_job(write_task(tmp_path))

    async def ask() -> list[Stage]:
        futures = [asyncio.wrap_future(executor.submit(job)) for _ in range(3)]
        return [stage_of(end) for end in await asyncio.gather(*futures)]

    assert asyncio.run(ask()) == [Stage.RIGHT] * 3


def test_tasks_see_the_packages_and_the_folder_of_the_caller(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    (tmp_path / "beside.py").write_text("AMOUNT = 1.0\n")
    task = write_task(tmp_path, reference="import beside; return x + beside.AMOUNT")
    relative = Path(os.path.relpath(task))
    assert stage_of(executor.submit(make_job(relative)).result()) is Stage.RIGHT


def test_bug_of_ours_is_a_fault_with_its_traceback(executor: LocalExecutor, tmp_path: Path) -> None:
    """A kernel whose main file is missing is made by no reader of ours."""
    job = Job(id="x", kernel=Kernel({}, "kernel.py"), task=write_task(tmp_path))
    end = executor.submit(job).result()
    assert isinstance(end, Faulted)
    assert "KeyError" in end.trace
