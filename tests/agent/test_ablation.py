"""What is switched off for an experiment is named, and nothing unknown is."""

import pytest

from nki_agent.agent.ablation import (
    ALL_TOOLS,
    Ablation,
    PromptKind,
    Tool,
    make_ablation,
    parse_tools,
    write_tools,
)
from nki_agent.agent.episode import Mode
from nki_agent.base.errors import UsageError


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("none", ()),
        ("all", ALL_TOOLS),
        ("compile", (Tool.COMPILE,)),
        ("verify, compile", (Tool.COMPILE, Tool.VERIFY)),
        ("compile_kernel,look-up", (Tool.COMPILE, Tool.LOOK_UP)),
    ],
)
def test_tools_are_read_by_their_words(text: str, tools: tuple[Tool, ...]) -> None:
    assert parse_tools(text) == tools
    assert parse_tools(write_tools(tools)) == tools


@pytest.mark.parametrize(
    ("text", "words"), [("compiler", "did you mean `compile`"), ("", "`none`, `all`, or some")]
)
def test_unknown_tool_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_tools(text)
    assert words in str(caught.value.hint)


def test_single_shot_has_no_tools() -> None:
    assert make_ablation(PromptKind.PLAIN, None, mode=Mode.SINGLE_SHOT).tools == ()
    assert make_ablation(PromptKind.PLAIN, "none", mode=Mode.SINGLE_SHOT).tools == ()
    with pytest.raises(UsageError):
        make_ablation(PromptKind.PLAIN, "verify", mode=Mode.SINGLE_SHOT)


def test_ablation_is_named_in_words() -> None:
    assert Ablation().is_whole
    some = Ablation(prompt=PromptKind.PLAIN, tools=(Tool.COMPILE, Tool.VERIFY))
    assert not some.is_whole
    assert str(some) == "plain prompt, tools compile,verify"
