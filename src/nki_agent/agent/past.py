"""What an episode did before it was stopped, read from its trajectory, so that it goes on there.

Law: the file is the log. A reply that is in it is not asked for again, and a tool's answer that is
in it is what the model sees; the tools run again only to be as they were. A last line that was cut
off is taken away. What was begun under another task, prompt, model or mode is kept aside.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from nki_agent.agent.episode import End
from nki_agent.agent.prompt import Prompt
from nki_agent.agent.trajectory import (
    BrokenTrajectoryError,
    Event,
    Finished,
    Past,
    Started,
    Trajectory,
    is_whole,
    read_trajectory,
)
from nki_agent.base.errors import UsageError
from nki_agent.base.linefile import find_free_name
from nki_agent.chip.spec import Target
from nki_agent.llm.protocol import Model
from nki_agent.task.task import Task

STOPPED = frozenset(
    {
        End.INTERRUPTED,
        End.FAILED,
        End.MODEL_AWAY,
        End.RUN_BUDGET,
        End.BUDGET,
        End.TOKENS,
    }
)
"""Ends after which an episode can go on."""
AWAY = "put it back as it was, or move it away: then the episode begins anew"


def make_start(task: Task, prompt: Prompt, *, model: Model, target: Target) -> Started:
    """The first line of an episode; `begin_or_go_on` gives it its time."""
    return Started(
        at="",
        task=task.id,
        task_hash=task.hash,
        model=model.name,
        mode=prompt.mode,
        target=target.value,
        prompt_hash=prompt.hash,
    )


def begin_or_go_on(trajectory: Trajectory, started: Started) -> None:
    """Write the first line of an episode; or, where its file has one, go on after what it holds."""
    started = msgspec.structs.replace(started, at=trajectory.now())
    path = trajectory.path
    if path is None or not path.exists():
        trajectory.add(started)
        return
    events = _read_past(path)
    if not events or not is_same(events[0], started):
        if events:
            path.rename(find_free_name(path, "old"))
        trajectory.add(started)
        return
    trajectory.past = Past(events)


def is_same(first: object, started: Started) -> bool:
    """Whether a first line is of the same episode, whatever the time."""
    return isinstance(first, Started) and msgspec.structs.replace(first, at=started.at) == started


def find_end(path: Path) -> Finished | None:
    """The last end in a trajectory, if nothing happened after it."""
    events = read_trajectory(path) if path.exists() else ()
    last = events[-1] if events else None
    return last if isinstance(last, Finished) else None


def find_over(past: Past) -> Finished | None:
    """How an episode ended, if it did for good: nothing more is asked in it."""
    last = past.last
    return last if isinstance(last, Finished) and last.end not in STOPPED else None


def _read_past(path: Path) -> tuple[Event, ...]:
    try:
        events = read_trajectory(path)
        cut_torn_line(path)
    except BrokenTrajectoryError as error:
        raise BrokenTrajectoryError(error.what, hint=AWAY) from error
    except OSError as error:
        raise BrokenTrajectoryError(
            f"`{path}` cannot be gone on with: {error.strerror}", hint=AWAY
        ) from error
    return events


def cut_torn_line(path: Path) -> None:
    """Take away a last line that a crash cut off, before anything is written behind it.

    One that lacks nothing but its end gets that.
    """
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if is_whole(data[whole:]):
        with path.open("ab") as file:
            file.write(b"\n")
    elif whole < len(data):
        os.truncate(path, whole)


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keep every other process from going on with the run in this folder meanwhile.

    Raises:
        UsageError: another one does.
    """
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another process works on the run `{folder}`", hint="wait for it, or end it"
            ) from error
        yield
    finally:
        os.close(file)
