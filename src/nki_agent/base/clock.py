"""Time is passed in, so that tests and replays control it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def monotonic_ns(self) -> int:
        """A steady time in ns, for durations."""

    def now(self) -> datetime:
        """The wall time in UTC, for names and records."""


class SystemClock:
    """The machine's clock."""

    def monotonic_ns(self) -> int:
        """Steady time of the machine in ns."""
        return time.monotonic_ns()

    def now(self) -> datetime:
        """Wall time of the machine in UTC."""
        return datetime.now(UTC)


class FakeClock:
    """A clock that moves only when told to, one step a reading; for tests."""

    def __init__(self, *, start_ns: int = 0, step_ns: int = 1_000_000) -> None:
        """Start at `start_ns`; every reading of `monotonic_ns` moves `step_ns` on."""
        self._ns = start_ns
        self._step_ns = step_ns

    def monotonic_ns(self) -> int:
        """The time, then one step."""
        self._ns += self._step_ns
        return self._ns

    def now(self) -> datetime:
        """A fixed epoch plus the time so far."""
        return datetime.fromtimestamp(self._ns / 1e9, UTC)
