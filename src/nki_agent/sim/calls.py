"""The calls that instructions come down to, in order, and running them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.sim.plan import Args, Run
from nki_agent.sim.storage import Fill


class Checked(NamedTuple):
    """An instruction's calls with checks among them; they replace `num_calls` calls at `start`."""

    start: int
    num_calls: int
    runs: tuple[Run, ...]
    args: tuple[Args, ...]
    stack: int


@dataclass(frozen=True, slots=True)
class Calls:
    """Functions and their arguments, in lists of one length."""

    runs: list[Run] = field(default_factory=list)
    args: list[Args] = field(default_factory=list)
    checked: list[Checked] = field(default_factory=list)

    def add(self, call: Fill) -> None:
        """Add one call after all others."""
        run, args = call
        self.runs.append(run)
        self.args.append(args)


def run_all(calls: Iterable[Fill]) -> None:
    """Run calls in order."""
    for run, args in calls:
        run(*args)


def run_plain(calls: Calls) -> None:
    """Run everything, without checks."""
    run_all(zip(calls.runs, calls.args, strict=True))


def run_checked(calls: Calls) -> Iterator[tuple[int, Diagnostic]]:
    """Run everything with checks; yields what they find, with the stack of the instruction."""
    done = 0
    for start, num_calls, runs, args, stack in calls.checked:
        run_all(zip(calls.runs[done:start], calls.args[done:start], strict=True))
        for run, arguments in zip(runs, args, strict=True):
            found = run(*arguments)
            if isinstance(found, Diagnostic):
                yield stack, found
        done = start + num_calls
    run_all(zip(calls.runs[done:], calls.args[done:], strict=True))
