"""What of another model's episode is learned: right ones whole, of failed ones the steps up."""

import msgspec
import pytest

from nki_agent.agent.episode import End, Episode
from nki_agent.agent.trajectory import ToolRun, Turn
from nki_agent.corpus.chat import Kind, convert_messages
from nki_agent.corpus.choosing import choose_draft, find_bad_turn, list_climbs
from nki_agent.corpus.episodes import Told, list_messages
from nki_agent.llm.protocol import Message, Reply, Role, ToolCall, Usage
from nki_agent.verify.verdict import Stage

WRITES = ("verify_kernel", "compile_kernel")


def make_told(
    *steps: tuple[str, dict[str, object], Stage | None], end: End = End.TURNS, fault: str = ""
) -> Told:
    """An episode of one call a turn."""
    turns, runs = [], []
    sent: tuple[Message, ...] = (
        Message(role=Role.SYSTEM, content="rules"),
        Message(role=Role.USER, content="task"),
    )
    for number, (name, arguments, stage) in enumerate(steps, start=1):
        call = ToolCall(id=str(number), name=name, arguments=arguments)
        if fault and number == len(steps):
            call = msgspec.structs.replace(call, fault=fault)
        reply = Reply(text=f"turn {number}", tool_calls=(call,))
        turns.append(Turn(turn=number, at="", sent=sent, reply=reply, model_ms=0.0))
        text = "It compiles: 3 instructions." if stage is None else f"stage: {stage.value}"
        runs.append(
            ToolRun(turn=number, call_id=call.id, name=name, result=text, stage=stage, wall_ms=0.0)
        )
        sent = (Message(role=Role.TOOL, content=text, tool_call_id=call.id),)
    episode = Episode(
        end=end, message="", turns=len(steps), usage=Usage(), wall_ms=0.0, kernel="k", verdict=None
    )
    return Told(
        episode=episode,
        messages=convert_messages(list_messages(tuple(turns))),
        tools=(),
        prompt_hash="p",
        runs=tuple(runs),
        turns=tuple(turns),
    )


def verify(source: str, stage: Stage | None) -> tuple[str, dict[str, object], Stage | None]:
    return "verify_kernel", {"source": source}, stage


SUBMIT: tuple[str, dict[str, object], Stage | None] = ("submit", {}, None)


def trained_turns(told: Told) -> tuple[Kind, list[str]]:
    draft, why = choose_draft(told, author="m", number=0)
    assert draft is not None, why
    texts = [m.content for m, t in zip(draft.messages, draft.trained, strict=True) if t]
    return draft.kind, texts


def test_right_episode_is_learned_where_it_came_further() -> None:
    told = make_told(
        verify("a", Stage.UNTRACEABLE),
        verify("b", Stage.REFUSED),
        verify("c", Stage.WRONG),
        verify("d", Stage.RIGHT),
        SUBMIT,
        end=End.SOLVED,
    )
    assert trained_turns(told) == (Kind.SAMPLED, ["turn 3", "turn 4", "turn 5"])


def test_first_kernel_is_learned_if_it_is_right_at_once() -> None:
    told = make_told(verify("a", Stage.RIGHT), SUBMIT, end=End.SOLVED)
    assert trained_turns(told) == (Kind.SAMPLED, ["turn 1", "turn 2"])


def test_failed_episode_ends_at_its_last_step_up() -> None:
    told = make_told(
        verify("a", Stage.REFUSED),
        verify("b", Stage.UNTRACEABLE),
        verify("c", Stage.UNTRACEABLE),
        verify("d", Stage.WRONG),
        verify("e", Stage.WRONG),
    )
    assert trained_turns(told) == (Kind.CLIMB, ["turn 2", "turn 4"])
    draft, _ = choose_draft(told, author="m", number=0)
    assert draft is not None
    assert draft.messages[-1].content == "turn 4"
    assert draft.kernel == ""


def test_failed_episode_without_a_step_up_gives_nothing() -> None:
    told = make_told(verify("a", Stage.WRONG), verify("b", Stage.UNFIT))
    assert choose_draft(told, author="m", number=0) == (None, "no step comes further")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (make_told(verify("a", Stage.WRONG), verify("a", Stage.RIGHT), end=End.SOLVED), "twice"),
        (make_told(("verify_kernel", {"kernel": "a"}, None), end=End.SOLVED), "malformed"),
        (make_told(("verify", {}, None), end=End.SOLVED), "malformed"),
        (make_told(verify("a", Stage.RIGHT), fault="cut off", end=End.SOLVED), "malformed"),
    ],
)
def test_right_episode_with_a_bad_turn_is_left_out(told: Told, why: str) -> None:
    draft, found = choose_draft(told, author="m", number=0)
    assert draft is None
    assert why in found


def test_steps_up_before_a_bad_turn_are_kept() -> None:
    told = make_told(
        verify("a", Stage.REFUSED),
        verify("b", Stage.WRONG),
        ("verify_kernel", {"kernel": "a"}, None),
        verify("c", Stage.RIGHT),
    )
    assert find_bad_turn(told)[0] == 3
    assert trained_turns(told) == (Kind.CLIMB, ["turn 2"])


def test_kernel_that_compiles_is_as_far_as_one_that_is_wrong() -> None:
    told = make_told(
        verify("a", Stage.UNFIT),
        ("compile_kernel", {"source": "b"}, None),
        verify("b", Stage.WRONG),
    )
    assert list_climbs(told.runs) == [2]
