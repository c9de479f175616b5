"""Verdicts on this machine's cores: one worker process a core, forked from one prepared process."""

from __future__ import annotations

import os
import weakref
from concurrent.futures import Future
from types import TracebackType
from typing import Final, Self

import msgspec

from nki_agent.base.clock import Clock, SystemClock
from nki_agent.base.errors import UsageError
from nki_agent.farm.dispatch import Dispatcher, Ticket
from nki_agent.farm.executor import WORKERS_MAX
from nki_agent.farm.job import End, Job
from nki_agent.farm.wire import FarmLimits, Order

DEFAULT_LIMITS: Final = FarmLimits()
AHEAD: Final = 2
"""Jobs a worker that should be ready for it: one runs, one waits."""


class LocalExecutor:
    """An Executor of worker processes; close it or use `with`. Processes start with the first job.

    `submit` may be called from any thread, and its futures wrapped for asyncio. Forgotten, or with
    the caller killed, it leaves no process behind.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        limits: FarmLimits = DEFAULT_LIMITS,
        clock: Clock | None = None,
    ) -> None:
        """As many workers as cores that this process may use, unless told."""
        count = len(os.sched_getaffinity(0)) if workers is None else workers
        if not 1 <= count <= WORKERS_MAX:
            raise UsageError(f"{count} workers cannot judge", hint=f"1 to {WORKERS_MAX}")
        self._workers = count
        self._owner = os.getpid()
        self._dispatcher = Dispatcher(workers=count, limits=limits, clock=clock or SystemClock())
        self._finalizer = weakref.finalize(self, self._dispatcher.stop)

    def __enter__(self) -> Self:
        """Itself, ready."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process."""
        self.close()

    @property
    def capacity(self) -> int:
        """Jobs that keep it busy; more of them only wait."""
        return self._workers * AHEAD

    @property
    def pid(self) -> int | None:
        """The prepared process, whose children are the workers; None when there is none."""
        return self._dispatcher.prepared_pid

    def submit(self, job: Job) -> Future[End]:
        """Queue a job; RuntimeError when closed, or in a fork of the process that made this."""
        if os.getpid() != self._owner:
            raise RuntimeError("a farm belongs to the process that made it")
        ticket = Ticket(msgspec.msgpack.encode(Order.from_job(job)))
        self._dispatcher.submit(ticket)
        return ticket.future

    def close(self) -> None:
        """Cancel what waits, give up what runs, and end every process."""
        if os.getpid() == self._owner:
            self._finalizer()
