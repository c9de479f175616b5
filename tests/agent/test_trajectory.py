"""Events are on disk before anything else happens, and come back as they were."""

import json
from pathlib import Path

import pytest

from nki_agent.agent.episode import End, Mode
from nki_agent.agent.trajectory import (
    Event,
    Finished,
    Started,
    ToolRun,
    Trajectory,
    Turn,
    Waiting,
    read_trajectory,
)
from nki_agent.base.clock import FakeClock
from nki_agent.base.errors import UsageError
from nki_agent.llm.protocol import Message, Reply, Role, ToolCall, Usage
from nki_agent.verify.verdict import Stage

EVENTS: tuple[Event, ...] = (
    Started(
        at="t",
        task="a",
        task_hash="h",
        model="m",
        mode=Mode.LOOP,
        target="trn2",
        prompt_hash="p",
    ),
    Turn(
        turn=1,
        at="t",
        sent=(Message(role=Role.USER, content="do"),),
        reply=Reply(tool_calls=(ToolCall(id="1", name="x", arguments={"a": [1, None]}),)),
        model_ms=1.5,
    ),
    ToolRun(turn=1, call_id="1", name="x", result="fine", stage=Stage.RIGHT, wall_ms=2.0),
    Finished(at="t", end=End.SOLVED, message="", turns=1, usage=Usage(), stage=None, wall_ms=3.0),
)


def test_events_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.jsonl"
    trajectory = Trajectory(path, clock=FakeClock())
    for event in EVENTS:
        trajectory.add(event)
    assert read_trajectory(path) == EVENTS


def test_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.jsonl"
    trajectory = Trajectory(path, clock=FakeClock())
    for event in EVENTS[:2]:
        trajectory.add(event)
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    assert read_trajectory(path) == EVENTS[:1]
    path.write_bytes(whole[:-1])
    assert read_trajectory(path) == EVENTS[:2]


def test_watcher_sees_an_event_that_is_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.jsonl"
    seen: list[tuple[Event | Waiting, int]] = []
    trajectory = Trajectory(
        path,
        clock=FakeClock(),
        watch=lambda event: seen.append((event, len(path.read_bytes().splitlines()))),
    )
    trajectory.add(EVENTS[0])
    trajectory.announce("verify_kernel", turn=1)
    assert seen == [(EVENTS[0], 1), (Waiting(turn=1, what="verify_kernel"), 1)]


@pytest.mark.parametrize(("line", "turn"), [(1, 5), (2, 7), (3, 1)])
def test_changed_number_of_a_turn_is_named(line: int, turn: int, tmp_path: Path) -> None:
    path = tmp_path / "trajectory.jsonl"
    trajectory = Trajectory(path, clock=FakeClock())
    for number in (1, 2):
        reply = Reply(text="x")
        trajectory.add(Turn(turn=number, at="", sent=(), reply=reply, model_ms=1.0))
        run = ToolRun(turn=number, call_id="", name="t", result="", stage=None, wall_ms=1.0)
        trajectory.add(run)
    events = [json.loads(text) for text in path.read_text().splitlines()]
    events[line - 1]["turn"] = turn
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    with pytest.raises(UsageError, match=f"line {line} is of turn {turn}, and turn"):
        read_trajectory(path)
