"""A run's folder as it was left: config, trajectory, kernel, verdict, timeline.

Law: a folder that is not ours, or of another version, is named and refused; a run that was cut off
is read as far as it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from nki_agent.llm.protocol import Json, Role, Usage
from nki_agent.verify.verdict import Stage, Verdict

BYTES_MAX = 256 * 2**20
NS_PER_US = 1e3
COMPILES = "It compiles"
"""How the answer to a kernel that compiles begins."""
Record = TypeVar("Record", Verdict, Summary)
_STAGE = re.compile(rf"^stage: ({'|'.join(Stage)})\b", re.MULTILINE)
_SAMPLE = re.compile(r"trajectory-([0-9]{1,7})\.jsonl")
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
class StoredSample:
    """One episode of a run."""

    number: int
    """From 1 on."""
    events: tuple[Event, ...]

    @cached_property
    def started(self) -> Started:
        """The first line."""
        assert isinstance(self.events[0], Started)
        return self.events[0]

    @property
    def finished(self) -> Finished | None:
        """The last line; None where it was cut off."""
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

    def has_said(self, kernel: str) -> bool:
        """Whether the model has sent this kernel."""
        for turn in self.turns:
            if kernel.strip() in turn.reply.text:
                return True
            for call in turn.reply.tool_calls:
                if kernel in _list_texts(call.arguments):
                    return True
        return False

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


def _list_texts(arguments: Json) -> list[str]:
    """Every text that a call gives, those of its lists too."""
    texts: list[str] = []
    for value in arguments.values():
        texts += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)]
    return texts


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """What was found in a run's folder."""

    path: Path
    samples: tuple[StoredSample, ...]
    start: str | None = None
    """The user's kernel that it began with."""
    kernel: str | None = None
    verdict: Verdict | None = None
    profile: Summary | None = None
    error: str | None = None
    task: str | None = None

    @cached_property
    def best(self) -> StoredSample:
        """The first sample that has sent the kernel that counts; else the first."""
        if self.kernel is not None:
            for sample in self.samples:
                if sample.has_said(self.kernel):
                    return sample
        return self.samples[0]

    @property
    def usage(self) -> Usage:
        """Tokens of all samples."""
        return sum((sample.usage for sample in self.samples), Usage())

    @property
    def usd(self) -> float | None:
        """What all samples cost; None where a price is not known."""
        nothing: float | None = 0.0
        return reduce(add_usd, (sample.usd for sample in self.samples), nothing)


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
    """The run in a folder with all its samples, or the one whose trajectory this file is.

    Raises:
        UsageError: there is none, or it is not of this version.
    """
    folder = RunFolder(path.parent if path.is_file() else path)
    files = [path] if path.is_file() else find_samples(folder)
    run = StoredRun(
        path=path,
        samples=tuple(
            StoredSample(number=number, events=_read_events(file, path))
            for number, file in enumerate(files, start=1)
        ),
        start=_read_text(folder.start),
        kernel=_read_text(folder.kernel),
        verdict=_read_record(folder.verdict, Verdict),
        profile=_read_record(folder.profile, Summary),
        error=_read_text(folder.error),
        task=_read_text(folder.task),
    )
    if path.is_file() and _is_of_another(run, folder):
        return replace(run, kernel=None, verdict=None, profile=None)
    return run


def find_samples(folder: RunFolder) -> list[Path]:
    """The trajectories of a run, in the order of its samples; the first one in any case."""
    later: dict[int, Path] = {}
    for file in folder.path.glob("trajectory-*.jsonl"):
        if (found := _SAMPLE.fullmatch(file.name)) is not None:
            later[int(found[1])] = file
    return [folder.trajectory, *(later[number] for number in sorted(later))]


def _is_of_another(run: StoredRun, folder: RunFolder) -> bool:
    """Whether the kernel that counts came from another sample than the one that is read."""
    if run.kernel is None or len(find_samples(folder)) == 1:
        return False
    return not run.samples[0].has_said(run.kernel)


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
