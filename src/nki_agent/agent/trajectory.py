"""The linear history of an episode as append-only JSON lines, and as events for whoever watches.

Law: an event is on disk before the next thing happens, so a killed run loses nothing that was paid
for. A turn holds only the messages that are new in it; all turns together are the whole history.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from nki_agent.agent.episode import End, Mode
from nki_agent.base.clock import Clock
from nki_agent.base.errors import UsageError
from nki_agent.base.jsonl import append_line
from nki_agent.llm.protocol import Message, Reply, Usage
from nki_agent.verify.verdict import Stage

SCHEMA = 1
"""Raised by every change that an older reader would misread."""
BEGIN = b'{"kind":"'
"""How every line begins."""
HINT = "a run is a folder that `nki-agent solve`, `fix`, `optimize` or `bench run` made"


class BrokenTrajectoryError(UsageError):
    """A file where a trajectory should be holds something else, or was changed."""

    def __init__(self, what: str, *, hint: str = HINT) -> None:
        """Keep `what` apart, for whoever knows a better hint."""
        super().__init__(what, hint=hint)
        self.what = what


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="start", tag_field="kind"):
    """The first line."""

    schema: int = SCHEMA
    at: str
    task: str
    task_hash: str
    model: str
    mode: Mode
    target: str
    prompt_hash: str


class Turn(msgspec.Struct, frozen=True, kw_only=True, tag="turn", tag_field="kind"):
    """One model call: what was sent since the last one, and the reply."""

    turn: int
    at: str
    sent: tuple[Message, ...]
    reply: Reply
    model_ms: float


class ToolRun(msgspec.Struct, frozen=True, kw_only=True, tag="tool", tag_field="kind"):
    """One tool call of a turn; its arguments are in the turn's reply."""

    turn: int
    call_id: str
    name: str
    result: str
    stage: Stage | None
    wall_ms: float


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="end", tag_field="kind"):
    """The last line."""

    at: str
    end: End
    message: str
    turns: int
    usage: Usage
    stage: Stage | None
    wall_ms: float
    usd: float | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Something begins that takes time. Only shown, never stored."""

    turn: int
    what: str


Event = Started | Turn | ToolRun | Finished
Watch = Callable[[Event | Waiting], None]
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def watch_nothing(event: Event | Waiting) -> None:
    """For who is not interested."""
    del event


class Past:
    """Turns and answers that an earlier process has written."""

    def __init__(self, events: tuple[Event, ...] = ()) -> None:
        """Sort the events of a trajectory."""
        self.last = events[-1] if events else None
        self._turns = {e.turn: e for e in events if isinstance(e, Turn)}
        self._runs: dict[int, list[ToolRun]] = {}
        for event in events:
            if isinstance(event, ToolRun):
                self._runs.setdefault(event.turn, []).append(event)
        self.spent_ms = sum(t.model_ms for t in self._turns.values())
        self.spent_ms += sum(run.wall_ms for runs in self._runs.values() for run in runs)

    def find_turn(self, turn: int) -> Turn | None:
        """The turn of this number, if it was paid."""
        return self._turns.get(turn)

    def find_run(self, turn: int, place: int) -> ToolRun | None:
        """What the call at this place of a turn's reply answered, from 1 on."""
        runs = self._runs.get(turn, [])
        return runs[place - 1] if place <= len(runs) else None


class Trajectory:
    """Writes events to a file, if there is one, then shows them."""

    def __init__(self, path: Path | None, *, clock: Clock, watch: Watch = watch_nothing) -> None:
        """Append to the file at `path`; times come from `clock`."""
        self.path = path
        self.past = Past()
        self._watch = watch
        self._clock = clock

    def now(self) -> str:
        """The wall time as text, in UTC."""
        return self._clock.now().isoformat(timespec="milliseconds")

    def add(self, event: Event) -> None:
        """Store, then show."""
        if self.path is not None:
            append_line(self.path, event)
        self._watch(event)

    def announce(self, what: str, *, turn: int) -> None:
        """Show that something begins."""
        self._watch(Waiting(turn=turn, what=what))


def read_trajectory(path: Path) -> tuple[Event, ...]:
    """All whole events of a file, a last line that a crash cut off left out.

    Raises:
        BrokenTrajectoryError: a line is no event, or its turn is not the one that was to come.
        OSError: it cannot be read.
    """
    events: list[Event] = []
    turn = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n") and _is_torn(line):
            continue
        event = _decode(line, path=path, number=number)
        turn += isinstance(event, Turn)
        if isinstance(event, Turn | ToolRun) and event.turn != turn:
            raise BrokenTrajectoryError(
                f"`{path}` was changed: line {number} is of turn {event.turn}, and turn {turn} was"
                " to come"
            )
        events.append(event)
    return tuple(events)


def is_whole(line: bytes) -> bool:
    """Whether a line lacks nothing but its end: what it says was paid, and counts."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        _DECODER.decode(line)
        return True
    return False


def _is_torn(line: bytes) -> bool:
    """Whether a last line begins as ours do, or is the zeros that a power failure left."""
    rest = line.strip(b"\0")
    return rest.startswith(BEGIN[: len(rest)]) and not is_whole(line)


def _decode(line: bytes, *, path: Path, number: int) -> Event:
    try:
        event: Event = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenTrajectoryError(
            f"`{path}` is no trajectory of this version: line {number}: {error}"
        ) from error
    return event
