"""A run's folder as it was left: config, trajectory, kernel, verdict, timeline.

Law: a folder that is not ours, or of another version, is named and refused; a run that was cut off
is read as far as it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import TypeVar

import msgspec

from nki_agent.agent.folder import RunFolder
from nki_agent.agent.trajectory import (
    HINT,
    SCHEMA,
    Event,
    Finished,
    Started,
    ToolRun,
    Turn,
    read_trajectory,
)
from nki_agent.base.errors import UsageError
from nki_agent.cost.summary import Summary
from nki_agent.llm.prices import add_usd
from nki_agent.llm.protocol import Role, Usage
from nki_agent.verify.verdict import Stage, Verdict

BYTES_MAX = 256 * 2**20
NS_PER_US = 1e3
COMPILES = "It compiles"
"""How the answer to a kernel that compiles begins."""
Record = TypeVar("Record", Verdict, Summary)
_STAGE = re.compile(rf"^stage: ({'|'.join(Stage)})\b", re.MULTILINE)
_LATENCY = re.compile(r"^(?:Estimated latency|latency +) ?([0-9.]+) µs", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One kernel that was judged or profiled on the way."""

    turn: int
    tool: str
    stage: Stage | None
    latency_ns: float | None
    wall_ms: float


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """What was found in a run's folder."""

    path: Path
    events: tuple[Event, ...]
    start: str | None = None
    """The user's kernel that it began with."""
    kernel: str | None = None
    verdict: Verdict | None = None
    profile: Summary | None = None
    error: str | None = None
    task: str | None = None

    @cached_property
    def started(self) -> Started:
        """The first line."""
        assert isinstance(self.events[0], Started)
        return self.events[0]

    @property
    def finished(self) -> Finished | None:
        """The last line; None where the run was cut off."""
        last = self.events[-1]
        return last if isinstance(last, Finished) else None

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """Every model call."""
        return tuple(event for event in self.events if isinstance(event, Turn))

    @property
    def usage(self) -> Usage:
        """Tokens of all turns."""
        return sum((turn.reply.usage for turn in self.turns), Usage())

    @property
    def usd(self) -> float | None:
        """What all turns cost; None where a price is not known."""
        nothing: float | None = 0.0
        return reduce(add_usd, (turn.reply.usd for turn in self.turns), nothing)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Kernels in the order in which they were tried."""
        return tuple(self._find_steps())

    def _find_steps(self) -> Iterator[Step]:
        for event in self.events:
            match event:
                case ToolRun():
                    yield from _read_step(
                        event.result, turn=event.turn, tool=event.name, wall_ms=event.wall_ms
                    )
                case Turn():
                    # The answer to a kernel that came as text is sent with the next turn.
                    for message in event.sent:
                        if message.role is Role.USER and event.turn > 1:
                            yield from _read_step(
                                message.content, turn=event.turn - 1, tool="text", wall_ms=0.0
                            )
                case Started() | Finished():
                    continue


def _read_step(answer: str, *, turn: int, tool: str, wall_ms: float) -> Iterator[Step]:
    """What an answer says of a kernel; nothing where it says nothing of one."""
    stage, latency = _STAGE.search(answer), _LATENCY.search(answer)
    if stage is not None or latency is not None or answer.startswith(COMPILES):
        yield Step(
            turn=turn,
            tool=tool,
            stage=None if stage is None else Stage(stage[1]),
            latency_ns=None if latency is None else float(latency[1]) * NS_PER_US,
            wall_ms=wall_ms,
        )


def read_run(path: Path) -> StoredRun:
    """The run in a folder, or the one whose trajectory this file is.

    Raises:
        UsageError: there is none, or it is not of this version.
    """
    folder = RunFolder(path.parent if path.is_file() else path)
    events = _read_events(path if path.is_file() else folder.trajectory, path)
    return StoredRun(
        path=path,
        events=events,
        start=_read_text(folder.start),
        kernel=_read_text(folder.kernel),
        verdict=_read_record(folder.verdict, Verdict),
        profile=_read_record(folder.profile, Summary),
        error=_read_text(folder.error),
        task=_read_text(folder.task),
    )


def _read_events(file: Path, path: Path) -> tuple[Event, ...]:
    events = read_whole_events(file, path)
    if not events or not isinstance(events[0], Started):
        raise UsageError(f"`{file}` has no beginning", hint=HINT)
    if events[0].schema != SCHEMA:
        raise UsageError(
            f"`{file}` has the version {events[0].schema}, and this program reads {SCHEMA}"
        )
    return events


def read_whole_events(file: Path, path: Path) -> tuple[Event, ...]:
    """Every whole line of a trajectory in the run at `path`, with or without a beginning.

    Raises:
        UsageError: it is not there, cannot be read, or a line is no event.
    """
    try:
        if file.stat().st_size > BYTES_MAX:
            raise UsageError(f"`{file}` is larger than a trajectory can be", hint=HINT)
        return read_trajectory(file)
    except FileNotFoundError as error:
        raise UsageError(f"`{path}` holds no run", hint=HINT) from error
    except OSError as error:
        raise UsageError(f"`{file}` cannot be read: {error.strerror}", hint=HINT) from error


def _read_text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"`{file}` cannot be read: {error.strerror}") from error


def _read_record(file: Path, kind: type[Record]) -> Record | None:
    text = _read_text(file)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise UsageError(f"`{file}` is not of this version: {error}", hint=HINT) from error
