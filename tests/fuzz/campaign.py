"""Runs cases one after the other, with a limit of time and memory for each, and keeps what fails.

Law: case n of a seed is the same in every run, so a failure is found again by its number.
"""

from __future__ import annotations

import os
import resource
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from nki_agent.base.clock import SystemClock
from nki_agent.base.seeds import rng_for

CASE_SECONDS = 60.0
"""The simulator's own limit on run-time loops ends them after a part of this."""
GROWTH_BYTES_MAX = 2**30
PIPE_BYTES = 60_000
NS = 1_000_000_000
Case = Callable[[np.random.Generator], str]


class HangError(BaseException):
    """A case goes on for too long; no `except Exception` keeps it from ending."""


class ApartError(Exception):
    """A case in a process of its own failed; the text is its trace."""


@dataclass(slots=True)
class Report:
    """How the cases ended."""

    ends: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    """Trace of the first failure of each kind, by its last frame."""
    num_cases: int = 0

    def add_failure(self, number: int, error: BaseException) -> None:
        """Keep the first of each kind."""
        frames = traceback.extract_tb(error.__traceback__)
        place = next((f for f in reversed(frames) if "nki_agent" in f.filename), frames[-1])
        if isinstance(error, ApartError):
            lines = [n for n in str(error).split("\n") if "nki_agent" in n and " line " in n]
            place_text = lines[-1].rpartition("/")[2] if lines else str(error)[-80:]
            kind = f"ApartError at {place_text}"
        else:
            kind = f"{type(error).__name__} at {place.filename.rpartition('/')[2]}:{place.lineno}"
        self.ends[kind] += 1
        if kind not in self.failures:
            text = "".join(traceback.format_exception(error))
            self.failures[kind] = f"case {number}\n{text}"


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `HangError` when the time is over."""

    def stop(number: int, frame: object) -> None:
        raise HangError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def peak_bytes() -> int:
    """The most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_cases(
    case: Case, *, seed: int, seconds: float, cases_max: int | None = None, first: int = 0
) -> Report:
    """Run cases from `first` on until the time or the number is over."""
    report, clock = Report(), SystemClock()
    end_ns = clock.monotonic_ns() + int(seconds * NS)
    number = first
    while clock.monotonic_ns() < end_ns and report.num_cases != cases_max:
        before = peak_bytes()
        try:
            with limited(CASE_SECONDS):
                report.ends[case(rng_for(seed, "fuzz", number))] += 1
            if peak_bytes() - before > GROWTH_BYTES_MAX:
                raise MemoryError(f"{peak_bytes() - before} bytes more")
        except (Exception, HangError) as error:  # noqa: BLE001 - what fails is what is looked for
            report.add_failure(number, error)
        number += 1
        report.num_cases += 1
    return report


def apart(case: Case) -> Case:
    """The same case in a process of its own, for code that changes the one that it runs in."""

    def run(rng: np.random.Generator) -> str:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            text = "!"
            try:
                text = case(rng)
            except BaseException as error:  # noqa: BLE001 - it goes on in the parent
                text = "!" + "".join(traceback.format_exception(error))
            finally:
                os.write(writing, text.encode("utf-8", "backslashreplace")[-PIPE_BYTES:])
                os._exit(0)
        os.close(writing)
        try:
            with os.fdopen(reading, "rb") as pipe:
                text = pipe.read().decode("utf-8", "replace")
        except HangError:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            os.waitpid(child, 0)
        if text.startswith("!") or not text:
            raise ApartError(text.strip())
        return text

    return run
