"""A stream of jobs to a stream of ends, as they come.

Law: every job is given back once with its end. A job whose id and key the log has judged is not
judged again; equal keys in one run are judged once; only a bounded number is with the executor, so
jobs can be made while others run. An end is in the log before it is given out.
"""

from __future__ import annotations

import queue
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Final

from nki_agent.base.errors import UsageError
from nki_agent.farm.cache import VerdictCache
from nki_agent.farm.executor import Executor
from nki_agent.farm.job import End, Job, Judged, Lost, Unusable
from nki_agent.farm.key import Key, KeyMaker
from nki_agent.farm.log import ResultLog
from nki_agent.verify.verdict import Verdict

EQUALS_MAX: Final = 64
"""Jobs for each of the executor's that may wait for an equal one."""


def run_many(
    jobs: Iterable[Job],
    executor: Executor,
    *,
    log: ResultLog | None = None,
    cache: VerdictCache | None = None,
) -> Generator[tuple[Job, End], None, None]:
    """Judge many kernels; jobs come back in the order in which they end. Close it to stop early.

    Raises:
        UsageError: Two different jobs have one id.
        MachineError: The log cannot be written.
    """
    # A run's own verdicts are found again wherever the cache may not keep them.
    with VerdictCache(None) as own:
        run = _Run(executor, log=log, cache=cache, own=own)
        try:
            for job in jobs:
                end = run.begin(job)
                if end is not None:
                    yield job, end
                while run.is_full:
                    yield from run.take()
            while run.is_busy:
                yield from run.take()
        finally:
            run.cancel()


class _Run:
    """What is in flight, and what is known."""

    def __init__(
        self,
        executor: Executor,
        *,
        log: ResultLog | None,
        cache: VerdictCache | None,
        own: VerdictCache,
    ) -> None:
        self._executor = executor
        self._log = log
        self._cache = cache
        self._own = own
        self._keys = KeyMaker()
        self._seen: dict[str, str] = {}
        """Id → key of every job of this run."""
        self._flights: dict[str, tuple[Key, list[Job], Future[End]]] = {}
        self._num_waiting = 0
        self._landed: queue.SimpleQueue[str] = queue.SimpleQueue()

    @property
    def is_busy(self) -> bool:
        return bool(self._flights)

    @property
    def is_full(self) -> bool:
        capacity = self._executor.capacity
        return len(self._flights) >= capacity or self._num_waiting >= capacity * EQUALS_MAX

    def begin(self, job: Job) -> End | None:
        """The end of a job where it is known; else it is in flight from now on."""
        try:
            key = self._keys.make(job)
        except UsageError as error:
            return self._note(job, "", Unusable(str(error), error.hint))
        if self._seen.setdefault(job.id, key.text) != key.text:
            raise UsageError(f"two different jobs have the id `{job.id}`")
        if self._log is not None and (known := self._log.find(job.id, key.text)) is not None:
            return known
        if (verdict := self._find(key)) is not None:
            return self._note(job, key.text, Judged(verdict))
        self._num_waiting += 1
        flight = self._flights.get(key.text)
        if flight is not None:
            flight[1].append(job)
            return None
        future = self._executor.submit(job)
        self._flights[key.text] = (key, [job], future)
        future.add_done_callback(lambda _: self._landed.put(key.text))
        return None

    def take(self) -> Iterator[tuple[Job, End]]:
        """Wait for the next end; every job that it is for."""
        key, jobs, future = self._flights.pop(self._landed.get())
        self._num_waiting -= len(jobs)
        try:
            end = future.result()
        except CancelledError:
            end = Lost("the executor was closed")
        if isinstance(end, Judged):
            self._keep(key, end)
        for job in jobs:
            yield job, self._note(job, key.text, end)

    def cancel(self) -> None:
        """Let go what has not begun."""
        for _, _, future in self._flights.values():
            future.cancel()

    def _find(self, key: Key) -> Verdict | None:
        found = self._own.find(key.text)
        if found is None and self._cache is not None and key.is_stable:
            found = self._cache.find(key.text)
        return found

    def _keep(self, key: Key, end: Judged) -> None:
        self._own.put(key.text, end.verdict)
        if self._cache is not None and key.is_stable:
            self._cache.put(key.text, end.verdict)

    def _note(self, job: Job, key: str, end: End) -> End:
        if self._log is not None:
            self._log.append(job.id, key, end)
        return end
