"""What a person sees while an episode runs, on stderr: lines, and on a terminal a moving last one.

Law: nothing here decides anything; what is shown is also in the trajectory.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from nki_agent.agent.episode import End
from nki_agent.agent.trajectory import Event, Finished, Started, ToolRun, Turn, Waiting
from nki_agent.base.clock import Clock
from nki_agent.base.diagnostic import clean
from nki_agent.cli.screen import Colour, has_colour, paint, say
from nki_agent.verify.verdict import Stage

NS_PER_S = 1e9
TEXT_SHOWN_MAX = 100
"""Characters of a model's text on one line."""


class Progress:
    """Shows events of one episode; a context, so that the moving line is always taken away."""

    def __init__(self, *, clock: Clock, turns: int) -> None:
        """Elapsed time comes from `clock`; `turns` is the limit that is shown."""
        self._clock = clock
        self._turns = turns
        self._start_ns = clock.monotonic_ns()
        self._status: Status | None = None

    def __enter__(self) -> Self:
        """Start the moving line where there is a terminal."""
        if has_colour(sys.stderr):
            self._status = Console(stderr=True).status("starting")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the moving line away."""
        if self._status is not None:
            self._status.stop()

    def show(self, event: Event | Waiting) -> None:
        """Show one event."""
        match event:
            case Waiting(turn=turn, what=what):
                if self._status is not None:
                    self._status.update(f"{self._head(turn)}  {what}")
            case Started(model=model, mode=mode, target=target, task=task):
                say(f"{self._elapsed()}  {task}: {model} writes for {target}, {mode.value}")
            case Turn(turn=turn, reply=reply):
                if reply.text or not reply.tool_calls:
                    text = paint(_line(reply.text), Colour.QUIET, stream=sys.stderr)
                    say(f"{self._head(turn)}  {text or '(an empty reply)'}")
            case ToolRun(turn=turn, name=name):
                say(f"{self._head(turn)}  {clean(name)}: {_write_result(event)}")
            case Finished(end=end, message=message):
                say(f"{self._elapsed()}  {end.value.replace('_', ' ')}: {_line(message)}")
                if end is End.INTERRUPTED:
                    say("a tool may still run; Ctrl-C again does not wait for it")

    def _head(self, turn: int) -> str:
        return f"{self._elapsed()}  turn {turn}/{self._turns}"

    def _elapsed(self) -> str:
        return f"{(self._clock.monotonic_ns() - self._start_ns) / NS_PER_S:6.1f} s"


def _write_result(run: ToolRun) -> str:
    """The stage, and for a kernel that is not right the first thing that was found."""
    lines = run.result.splitlines()
    if run.stage is None or len(lines) == 1:
        return _line(run.result)
    if run.stage is Stage.RIGHT:
        return run.stage.value
    return f"{run.stage.value}: {_line(lines[1])}"


def _line(text: str) -> str:
    """The first line, cleaned and not too long."""
    lines = text.strip().splitlines() or [""]
    line = " ".join(clean(lines[0]).split())
    return line if len(line) <= TEXT_SHOWN_MAX else line[: TEXT_SHOWN_MAX - 1] + "…"
