"""What a recording says where it is asked something else."""

import json
from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.llm.protocol import Message, Role, ToolCall
from nki_agent.llm.recorded import find_difference, read_recording


def test_difference_is_shown_where_it_is_not_the_common_start() -> None:
    start, end = "a" * 300, "z" * 300
    old, new = (Message(role=Role.USER, content=f"x\n{start}{m}{end}") for m in ("OLD", "NEW"))
    found = find_difference([old], [new])
    assert "line 2, column 301: `…aa" in found
    assert "aOLDz" in found
    assert "aNEWz" in found
    assert len(found) < 300


@pytest.mark.parametrize("turns", [(2, 3), (1, 3), (1, 1), (2, 1)])
def test_changed_number_of_a_turn_is_named(turns: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "trajectory.jsonl"
    reply = {"text": "x", "tool_calls": [], "stop": "done"}
    lines = [{"kind": "turn", "turn": turn, "sent": [], "reply": reply} for turn in turns]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    wrong = next(n for n, turn in enumerate(turns, start=1) if turn != n)
    with pytest.raises(UsageError) as caught:
        read_recording(tmp_path)
    assert f":{wrong}: the recording was changed" in str(caught.value)
    assert f"here is turn {turns[wrong - 1]}, and turn {wrong} was to come" in str(caught.value)


def ask(*calls: tuple[str, dict[str, object]]) -> Message:
    made = (ToolCall(id=f"{n}", name=name, arguments=a) for n, (name, a) in enumerate(calls))
    return Message(role=Role.ASSISTANT, tool_calls=tuple(made))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            ask(("look_up", {"query": "exp"})),
            ask(("look_up", {"query": "exq"})),
            "call 1 of `look_up`, `query`, line 1, column 3",
        ),
        (ask(("look_up", {})), ask(("submit", {})), "call 1 was of `look_up` and is of `submit`"),
        (ask(("submit", {})), ask(("submit", {}), ("submit", {})), "had 1 call and has 2"),
        (ask(("look_up", {"n": 1})), ask(("look_up", {"n": 2})), "`n`: 1 was recorded, now 2"),
        (
            Message(role=Role.TOOL, content="x", tool_call_id="a"),
            Message(role=Role.TOOL, content="x", tool_call_id="b"),
            "answers call `b`, recorded was `a`",
        ),
    ],
)
def test_difference_of_calls_is_named(old: Message, new: Message, words: str) -> None:
    assert words in find_difference([old], [new])
