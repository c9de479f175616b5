"""Colour and movement only where a person looks; the words are the same everywhere."""

import io
import sys

import pytest

from nki_agent.agent.episode import End, Mode
from nki_agent.agent.trajectory import Event, Finished, Started, ToolRun, Turn, Waiting
from nki_agent.base.clock import FakeClock
from nki_agent.cli.progress import Progress
from nki_agent.cli.screen import Colour, paint, write_table
from nki_agent.llm.protocol import Reply, Usage
from nki_agent.verify.verdict import Stage

WRONG, PLAIN = "stage: wrong\nNK501 far off", "a card\x1b[2J"
EVENTS: tuple[Event | Waiting, ...] = (
    Started(
        at="t", task="a", task_hash="h", model="m", mode=Mode.LOOP, target="trn2", prompt_hash="p"
    ),
    Waiting(turn=1, what="asking m"),
    Turn(turn=1, at="t", sent=(), reply=Reply(), model_ms=1.0),
    Turn(turn=1, at="t", sent=(), reply=Reply(text="x" * 500), model_ms=1.0),
    ToolRun(turn=1, call_id="1", name="v", result=WRONG, stage=Stage.WRONG, wall_ms=1.0),
    ToolRun(turn=1, call_id="1", name="v", result=PLAIN, stage=None, wall_ms=1.0),
    Finished(
        at="t",
        end=End.INTERRUPTED,
        message="stopped",
        turns=1,
        usage=Usage(),
        stage=None,
        wall_ms=1.0,
    ),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """In the test itself: pytest puts its own stderr back between set-up and call."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def show_all() -> None:
    with Progress(clock=FakeClock(), turns=3) as progress:
        for event in EVENTS:
            progress.show(event)


def test_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show_all()
    lines = [line[10:] for line in capsys.readouterr().err.splitlines()]
    assert lines[:2] == ["a: m writes for trn2, loop", "turn 1/3  (an empty reply)"]
    assert lines[2] == "turn 1/3  " + "x" * 99 + "…"
    assert lines[3] == "turn 1/3  v: wrong: NK501 far off"
    assert lines[4] == "turn 1/3  v: a card�[2J"
    assert lines[5] == "interrupted: stopped"


def test_terminal_shows_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    show_all()
    assert "\x1b[" in terminal.getvalue()
    assert "asking m" in terminal.getvalue()


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_turned_off(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    terminal = open_terminal(monkeypatch)
    assert paint("right", Colour.GOOD, stream=terminal) == "\x1b[32mright\x1b[0m"
    monkeypatch.setenv(name, value)
    assert paint("right", Colour.GOOD, stream=terminal) == "right"
    show_all()
    assert "\x1b[" not in terminal.getvalue()


def test_table_keeps_columns_under_one_another() -> None:
    lines = write_table([["a", "n"], ["long name", "7"], ["b", "12"], ["c", "-"]])
    assert lines == ["a           n", "long name   7", "b          12", "c           -"]
