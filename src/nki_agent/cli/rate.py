"""How far a long piece of work is: what is done, how fast, and how long it will take."""

from __future__ import annotations

import sys

from nki_agent.base.clock import Clock
from nki_agent.cli.screen import has_colour, say

NS_PER_S = 1e9
EVERY_S = 10.0
"""Between two lines where nobody watches a terminal."""
WATCHED_S = 1.0
SETTLED_S = 1.0
"""Work of less time says nothing of a rate: a run that finds all done takes no time at all."""
MINUTE_S = 60.0
HOUR_S = 3600.0


class Rate:
    """Says now and then how far the work is; lines, so that a log reads as a terminal does."""

    def __init__(self, *, clock: Clock, noun: str) -> None:
        """Time comes from `clock`; `noun` is what is counted, in the plural."""
        self._clock = clock
        self._noun = noun
        self._first: tuple[int, float] | None = None
        """How much was done when the first came, and when: processes have started by then."""
        self._every_s = WATCHED_S if has_colour(sys.stderr) else EVERY_S
        self._said_s: float | None = None

    def show(self, done: int, *, total: int, rest: str = "") -> None:
        """Say it, unless it was just said; the last one is always said."""
        now_s = self._clock.monotonic_ns() / NS_PER_S
        if self._first is None:
            self._first = done, now_s
        if done < total and self._said_s is not None and now_s - self._said_s < self._every_s:
            return
        self._said_s = now_s
        say(f"[{done}/{total}]{self._write(done, total, now_s)}{rest}")

    def _write(self, done: int, total: int, now_s: float) -> str:
        """The rate, and the time that is left at it; nothing while it is not known."""
        assert self._first is not None
        made, spent_s = done - self._first[0], now_s - self._first[1]
        if not made or spent_s < SETTLED_S:
            return ""
        rate = made / spent_s
        text = f" {rate * MINUTE_S:.0f} {self._noun} a minute"
        return text if done == total else f"{text}, {write_duration((total - done) / rate)} left"


def write_duration(seconds: float) -> str:
    """A time as one reads it.

    >>> write_duration(42.0), write_duration(200.0), write_duration(7300.0)
    ('42 s', '3 min', '2.0 h')
    """
    if seconds < 2 * MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR_S:
        return f"{seconds / MINUTE_S:.0f} min"
    return f"{seconds / HOUR_S:.1f} h"
