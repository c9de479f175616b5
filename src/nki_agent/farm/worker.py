"""A worker: one process that judges one job after another.

Law: whatever happens inside a job becomes one of its ends. What the machine is short of (memory,
disk, descriptors) is `Lost`, wherever it struck: a reference that fails for want of memory is no
bad task. A task is loaded again when its file, or a module beside it, has changed.
"""

from __future__ import annotations

import os
import resource
import socket
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from nki_agent.base.errors import MachineError, TaskError, UsageError
from nki_agent.base.seeds import draw_root_seed
from nki_agent.base.writing import SHORTAGES
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.farm.job import Ask, End, Faulted, Judged, Looked, Lost, Unusable
from nki_agent.farm.key import read_task_tree
from nki_agent.farm.wire import FarmLimits, Order, Reply, receive, send
from nki_agent.sandbox.child import FAILURE_STATUS
from nki_agent.sandbox.jail import die_with, read_address_space_bytes
from nki_agent.sandbox.task_host import TaskHost, load_untrusted_task
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge

TORCH_SHORTAGES: Final = ("can't allocate memory", "not enough memory")
"""PyTorch's own allocator raises a RuntimeError with one of these."""
OUT_OF_MEMORY_SCORE: Final = b"500"
"""When memory runs out Linux takes a worker before the caller, and a kernel before a worker."""

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A task, and what its files looked like before it was loaded."""

    task: Task
    paths: tuple[Path, ...]
    stamp: Stamp


class Worker:
    """Judges for any target and keeps the last tasks; close it or use its process's end."""

    def __init__(self, limits: FarmLimits) -> None:
        """Start nothing yet."""
        self._limits = limits
        self._judges: dict[tuple[Target, Surface], Judge] = {}
        self._tasks: OrderedDict[tuple[Path, bool], _Loaded] = OrderedDict()
        self._host: TaskHost | None = None
        """Where tasks that nobody has read are loaded; started by the first of them."""

    def close(self) -> None:
        """End the tracing processes."""
        for judge in self._judges.values():
            judge.close()
        self._judges.clear()
        if self._host is not None:
            self._host.close()
            self._host = None

    def run(self, order: Order) -> End:
        """The end of one job; raises nothing."""
        try:
            return self._answer(order)
        except BaseException as error:  # noqa: BLE001 - every error is one of the ends
            return end_of(error)

    def _answer(self, order: Order) -> End:
        task = self.load(order.path, is_trusted=order.is_task_trusted)
        judge = self._judges.get((order.target, order.surface))
        if judge is None:
            judge = self._judges[order.target, order.surface] = Judge(
                target=order.target,
                surface=order.surface,
                allow_unsandboxed=self._limits.allow_unsandboxed,
                limits=self._limits.trace,
            )
        match order.ask:
            case Ask.LOOK:
                return Looked(judge.look(order.kernel, task.looked_at(order.scope)))
            case Ask.VERDICT:
                seed = draw_root_seed() if order.root_seed is None else order.root_seed
                return Judged(judge.judge(order.kernel, task, root_seed=seed, scope=order.scope))

    def load(self, path: Path, *, is_trusted: bool = True) -> Task:
        """The task of a file, from memory if nothing has changed."""
        known = self._tasks.pop((path, is_trusted), None)
        if known is None or _stamp(known.paths) != known.stamp:
            names = read_task_tree(path)
            paths = tuple(path.parent / name for name in (path.name, *names))
            stamp = _stamp(paths)
            task = load_task(path) if is_trusted else self._load_apart(path)
            known = _Loaded(task, paths, stamp)
        self._tasks[path, is_trusted] = known
        while len(self._tasks) > self._limits.tasks_kept:
            self._tasks.popitem(last=False)
        return known.task

    def _load_apart(self, path: Path) -> Task:
        if self._host is None:
            self._host = TaskHost(allow_unsandboxed=self._limits.allow_unsandboxed)
        return load_untrusted_task(path, host=self._host)


def _stamp(paths: tuple[Path, ...]) -> Stamp:
    found = []
    for path in paths:
        with suppress(OSError):
            state = path.stat()
            found.append((str(path), state.st_mtime_ns, state.st_size))
    return tuple(found)


def end_of(error: BaseException) -> End:
    """Whose failure an error is."""
    if shortage := find_shortage(error):
        return Lost(shortage)
    if isinstance(error, TaskError | UsageError):
        message = str(error).removesuffix(f"\n  hint: {error.hint}")
        return Unusable(message, error.hint)
    return Faulted("".join(traceback.format_exception(error)))


def find_shortage(error: BaseException) -> str:
    """What the machine was short of, if that is behind an error; else nothing."""
    for cause in _chain(error):
        text = " ".join(str(cause).split())
        match cause:
            case MachineError():
                return text
            case MemoryError():
                return f"this machine is out of memory: {text}" if text else "out of memory"
            case OSError() if cause.errno in SHORTAGES:
                return f"this machine refuses: {text}"
            case RuntimeError() if any(words in text for words in TORCH_SHORTAGES):
                return f"this machine is out of memory: {text}"
            case _:
                pass
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def live(
    control: socket.socket, *, parent: int, limits: FarmLimits
) -> NoReturn:  # pragma: no cover - in the worker
    """What a forked worker does until its socket is closed."""
    status = FAILURE_STATUS
    try:
        die_with(parent)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_bytes(OUT_OF_MEMORY_SCORE)
        if limits.address_bytes is not None:
            most = read_address_space_bytes() + limits.address_bytes
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        serve(control, limits)
        status = 0
    finally:
        os._exit(status)


def serve(control: socket.socket, limits: FarmLimits) -> None:
    """Answer orders until the other end is closed."""
    worker = Worker(limits)
    before = read_resident_bytes()
    encoder = msgspec.msgpack.Encoder()
    send(control, encoder.encode(Reply()))
    while (order := receive(control, Order)) is not None:
        end = worker.run(order)
        growth = read_resident_bytes() - before
        send(control, encoder.encode(Reply(end=end, growth_bytes=growth)))
    worker.close()


def read_resident_bytes() -> int:
    """Resident memory of this process; 0 where /proc is not mounted."""
    try:
        num_pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return 0
    return num_pages * resource.getpagesize()
