"""A worker in this process: orders in, ends out."""

import errno
import os
import socket
import threading
from pathlib import Path

import msgspec
import pytest

from nki_agent.base.errors import MachineError, TaskError, UsageError
from nki_agent.farm.job import Faulted, Judged, Lost, Unusable
from nki_agent.farm.wire import FarmLimits, Order, Reply, receive, send
from nki_agent.farm.worker import Worker, end_of, find_shortage, serve
from nki_agent.verify.verdict import Stage
from tests.farm.pool import make_job, write_task


def test_served_orders_are_answered_until_the_socket_is_closed(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = len(list(Path("/proc/self/fd").iterdir()))
    thread = threading.Thread(target=serve, args=(theirs, FarmLimits()))
    thread.start()
    with ours:
        assert receive(ours, Reply) == Reply()
        for _ in range(2):
            order = Order.from_job(make_job(write_task(tmp_path)))
            send(ours, msgspec.msgpack.encode(order))
            reply = receive(ours, Reply)
            assert reply is not None
            assert isinstance(reply.end, Judged)
            assert reply.end.verdict.stage is Stage.RIGHT
    thread.join()
    theirs.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 2


def test_worker_keeps_only_the_last_tasks(tmp_path: Path) -> None:
    worker = Worker(FarmLimits(tasks_kept=2))
    paths = [write_task(tmp_path, name=name) for name in ("a", "b", "c")]
    first, second, third = map(worker.load, paths)
    assert worker.load(paths[2]) is third
    assert worker.load(paths[1]) is second
    assert worker.load(paths[0]) is not first


def test_task_is_loaded_again_when_a_module_beside_it_changes(tmp_path: Path) -> None:
    beside = tmp_path / "beside.py"
    beside.write_text("AMOUNT = 1.0\n")
    path = write_task(tmp_path, reference="import beside; return x + beside.AMOUNT")
    worker = Worker(FarmLimits())
    first = worker.load(path)
    assert worker.load(path) is first
    beside.write_text("AMOUNT = 22.0\n")
    assert worker.load(path).hash != first.hash


def test_order_carries_any_text_and_any_path(tmp_path: Path) -> None:
    job = make_job(tmp_path / os.fsdecode(b"t\xff.py"), source="x = '\ud800'\n")
    order = msgspec.msgpack.decode(msgspec.msgpack.encode(Order.from_job(job)), type=Order)
    assert (order.kernel, order.path) == (job.kernel, job.task)


def raised(error: BaseException, *, by: BaseException | None = None) -> BaseException:
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    "error",
    [
        MachineError("the sandbox is gone"),
        MemoryError(),
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_shortage_is_the_machines_wherever_it_struck(error: BaseException) -> None:
    assert find_shortage(error)
    assert isinstance(end_of(error), Lost)
    assert isinstance(end_of(raised(TaskError("the reference raised"), by=error)), Lost)


def test_other_errors_are_the_tasks_or_ours() -> None:
    assert end_of(TaskError("no model", hint="add one")) == Unusable("no model", "add one")
    assert end_of(UsageError("no file")) == Unusable("no file")
    fault = end_of(raised(ValueError("ours"), by=PermissionError(errno.EACCES, "no")))
    assert isinstance(fault, Faulted)
    assert "ValueError: ours" in fault.trace
