"""What carries jobs out: this machine's cores (`local`), or something larger in its place."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Final, Protocol

from nki_agent.farm.job import End, Job

WORKERS_MAX: Final = 1024
"""Each is a process."""


class Executor(Protocol):
    """Takes jobs from any thread; each gets exactly one end.

    A future can be cancelled until its job starts. Its exception is a bug of the executor itself:
    whatever happens to a job is an End.
    """

    @property
    def capacity(self) -> int:
        """Jobs that keep it busy; more of them only wait."""

    def submit(self, job: Job) -> Future[End]:
        """Queue a job."""

    def close(self) -> None:
        """Cancel what waits, give up what runs, and end every process."""
