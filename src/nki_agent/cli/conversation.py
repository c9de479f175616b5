"""A conversation while it happens, on stderr: whole texts, in colours where there are some."""

from __future__ import annotations

import sys
from typing import TextIO

from nki_agent.agent.trajectory import Event, Waiting
from nki_agent.cli.progress import Progress
from nki_agent.cli.screen import Colour, paint, say
from nki_agent.report.transcript import Line, Tone, Transcript

COLOURS = {
    Tone.ADDED: Colour.GOOD,
    Tone.REMOVED: Colour.BAD,
    Tone.QUIET: Colour.QUIET,
    Tone.CODE: Colour.QUIET,
}


class Conversation(Progress):
    """Shows everything that is said, in place of a line for each event."""

    _transcript: Transcript | None = None

    def show(self, event: Event | Waiting) -> None:
        """Show one event."""
        if isinstance(event, Waiting):
            super().show(event)
            return
        if self._transcript is None:
            self._transcript = Transcript()
        for line in self._transcript.write(event):
            say(paint_line(line, stream=sys.stderr))


def paint_line(line: Line, *, stream: TextIO | None = None) -> str:
    """A line of a transcript in its colour."""
    tone, text = line
    return paint(text, COLOURS[tone], stream=stream) if tone in COLOURS else text
