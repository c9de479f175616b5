"""Providers over their wire formats: what is sent, what a reply means, what failures cost."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")
pytest.importorskip("anthropic")

from nki_agent.llm.inspect_model import InspectModel, RetryPolicy
from nki_agent.llm.protocol import (
    Message,
    ModelAwayError,
    ModelError,
    Reply,
    Role,
    StopReason,
    TokenLimits,
    ToolCall,
    ToolSpec,
    Usage,
)
from nki_agent.llm.providers import make_inspect_model
from tests.llm.server import (
    KEY,
    Drop,
    Endless,
    Fail,
    Hang,
    Raw,
    Say,
    Step,
    Wire,
    openai_body,
    serve,
)

# Inspect leaves streams open, and its libraries warn about each other.
pytestmark = [pytest.mark.enable_socket, pytest.mark.filterwarnings("ignore")]

ANTHROPIC, OPENAI, COMPATIBLE = "anthropic/claude-sonnet-4-5", "openai/gpt-4o", "openai-api/my/m"
RESPONSES = "openai/gpt-5"
"""A model that Inspect asks by OpenAI's newer interface."""
NAMES = (ANTHROPIC, OPENAI, RESPONSES, COMPATIBLE)
EACH = pytest.mark.parametrize("name", NAMES)
TOOLS = (
    ToolSpec(
        name="verify_kernel",
        description="Judge a kernel.",
        parameters={
            "type": "object",
            "properties": {"source": {"type": "string", "description": "The file."}},
            "required": [],
            "additionalProperties": False,
        },
    ),
)
BEGIN = (
    Message(role=Role.SYSTEM, content="You write kernels. " * 200),
    Message(role=Role.USER, content="Write one."),
)
CALL = ToolCall(id="call_0", name="verify_kernel", arguments={"source": "import nki"})
TALK = (
    *BEGIN,
    Message(role=Role.ASSISTANT, content="", tool_calls=(CALL,)),
    Message(role=Role.TOOL, content="stage: wrong", tool_call_id="call_0"),
)


@pytest.fixture(autouse=True, scope="module")
def _keep() -> Iterator[None]:
    """What was there before is left out of the collections below: they'd take most of the time."""
    for provider in (ANTHROPIC, OPENAI):
        make_inspect_model(provider, api_key=KEY)
    gc.collect()
    gc.freeze()
    yield
    # What the tests left open is closed while its warnings are still ignored.
    gc.collect()
    gc.unfreeze()


class Asked:
    """What came of asking once, and how long it would have waited."""

    def __init__(
        self, wire: Wire, name: str, monkeypatch: pytest.MonkeyPatch, *, call_s: float = 5.0
    ) -> None:
        for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "MY_API_KEY"):
            monkeypatch.setenv(variable, KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{wire.url}/v1")
        monkeypatch.setenv("MY_BASE_URL", f"{wire.url}/v1")
        self.waits: list[float] = []
        policy = RetryPolicy(call_s=call_s)
        self.model = InspectModel(
            make_inspect_model(name), name=name, policy=policy, sleep=self.sleep
        )

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def ask(
        self,
        messages: Sequence[Message] = BEGIN,
        *,
        tools: Sequence[ToolSpec] = TOOLS,
        tokens: int = 4096,
    ) -> Reply:
        return asyncio.run(self.reply(messages, tools=tools, tokens=tokens))

    async def reply(
        self,
        messages: Sequence[Message] = BEGIN,
        *,
        tools: Sequence[ToolSpec] = TOOLS,
        tokens: int = 4096,
    ) -> Reply:
        return await self.model.reply(
            messages, tools=tools, limits=TokenLimits(output_tokens=tokens)
        )


def ask(name: str, monkeypatch: pytest.MonkeyPatch, *steps: Step, **how: Any) -> Reply:
    with serve(*steps) as wire:
        return Asked(wire, name, monkeypatch).ask(**how)


@EACH
def test_text_and_usage_come_as_the_provider_counts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = ask(name, monkeypatch, Say(text="hello", cached=800))
    assert reply == Reply(
        text="hello",
        stop=StopReason.DONE,
        usage=Usage(input_tokens=1000, output_tokens=50, cached_tokens=800),
    )


@EACH
def test_tool_calls_of_one_reply_come_in_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: tuple[tuple[str, object], ...] = (
        ("verify_kernel", {"source": "a"}),
        ("verify_kernel", {}),
    )
    reply = ask(name, monkeypatch, Say(text="try", calls=calls))
    assert reply.stop is StopReason.TOOL_CALLS
    assert [(c.name, c.arguments, c.fault) for c in reply.tool_calls] == [
        ("verify_kernel", {"source": "a"}, ""),
        ("verify_kernel", {}, ""),
    ]
    assert len({c.id for c in reply.tool_calls}) == 2


@EACH
def test_history_with_tools_goes_over_the_wire(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Say(text="ok")) as wire:
        Asked(wire, name, monkeypatch).ask(TALK, tokens=777)
        (request,) = wire.requests
    if name == ANTHROPIC:
        assert wire.paths == ["/v1/messages"]
        assert request["max_tokens"] == 777
        (use,) = [c for c in request["messages"][1]["content"] if c["type"] == "tool_use"]
        assert (use["id"], use["input"]) == ("call_0", {"source": "import nki"})
        (result,) = [c for c in request["messages"][2]["content"] if c["type"] == "tool_result"]
        assert result["tool_use_id"] == "call_0"
        assert request["tools"][0]["name"] == "verify_kernel"
    elif name == RESPONSES:
        assert wire.paths == ["/v1/responses"]
        assert request["max_output_tokens"] == 777
        system, user, called, answer = request["input"]
        assert [system["role"], user["role"]] == ["developer", "user"]
        assert (called["type"], called["call_id"], called["name"]) == (
            "function_call",
            "call_0",
            "verify_kernel",
        )
        assert json.loads(called["arguments"]) == {"source": "import nki"}
        assert (answer["type"], answer["call_id"]) == ("function_call_output", "call_0")
        assert request["tools"][0]["name"] == "verify_kernel"
    else:
        assert wire.paths == ["/v1/chat/completions"]
        assert 777 in (request.get("max_tokens"), request.get("max_completion_tokens"))
        assert [m["role"] for m in request["messages"]][1:] == ["user", "assistant", "tool"]
        assert request["messages"][2]["tool_calls"][0]["function"]["name"] == "verify_kernel"
        assert request["messages"][3]["tool_call_id"] == "call_0"
        assert not request["tools"][0]["function"].get("strict")


def test_anthropic_is_asked_to_cache_and_what_it_writes_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve(Say(text="ok", cached=600, written=300)) as wire:
        reply = Asked(wire, ANTHROPIC, monkeypatch).ask(TALK)
        (request,) = wire.requests
    assert "cache_control" in str(request)
    assert "cache_control" in request["system"][-1]
    assert reply.usage == Usage(
        input_tokens=1000, output_tokens=50, cached_tokens=600, cache_write_tokens=300
    )


@EACH
def test_key_is_sent_to_the_provider_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Fail(status=400, message=f"bad {KEY}")) as wire:
        with pytest.raises(ModelError) as caught:
            Asked(wire, name, monkeypatch).ask()
        assert KEY in str(wire.headers)
    assert KEY not in str(caught.value)
    assert "_API_KEY]" in str(caught.value)


@EACH
@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "not accept the key"), (403, "may not use"), (404, "does not know this model")],
)
def test_closed_door_is_knocked_at_once_and_never_again(
    name: str, status: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(Fail(status=status, message=f"wrong {KEY}")) as wire:
        asked = Asked(wire, name, monkeypatch)
        for _ in range(2):
            with pytest.raises(ModelAwayError, match=words) as caught:
                asked.ask()
            assert KEY not in str(caught.value)
        assert len(wire.requests) == 1
    assert asked.waits == []


def test_empty_account_is_not_a_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Fail(status=429, code="insufficient_quota")) as wire:
        with pytest.raises(ModelAwayError, match="no credit"):
            Asked(wire, OPENAI, monkeypatch).ask()
        assert len(wire.requests) == 1


@EACH
def test_rate_limit_waits_as_long_as_it_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Fail(status=429, code="rate_limit_error", retry_after="7")
    with serve(limit, limit, Say(text="ok")) as wire:
        asked = Asked(wire, name, monkeypatch)
        reply = asked.ask()
        assert len(wire.requests) == 3
    assert (reply.text, reply.retries) == ("ok", 2)
    assert all(7.0 <= wait <= 10.5 for wait in asked.waits)
    assert len(asked.waits) == 2


@EACH
def test_overload_backs_off_and_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Fail(status=503, code="overloaded_error")) as wire:
        asked = Asked(wire, name, monkeypatch)
        with pytest.raises(ModelAwayError, match="asked 6 times"):
            asked.ask()
        assert len(wire.requests) == 6
    assert [round(w, 1) for w in asked.waits] == sorted(round(w, 1) for w in asked.waits)
    assert asked.waits[-1] >= 16.0


def test_too_long_a_wait_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Fail(status=429, code="rate_limit_error", retry_after="3600")) as wire:
        asked = Asked(wire, ANTHROPIC, monkeypatch)
        with pytest.raises(ModelAwayError, match="asks to wait 3600 s"):
            asked.ask()
    assert asked.waits == []


@EACH
def test_nobody_there_is_tried_some_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Say()) as wire:
        pass
    asked = Asked(wire, name, monkeypatch)
    with pytest.raises(ModelAwayError, match="asked 6 times"):
        asked.ask()
    assert len(asked.waits) == 5


@EACH
@pytest.mark.parametrize("drop", [Drop(), Drop(after_bytes=60)])
def test_lost_reply_is_asked_for_once_more_only(
    name: str, drop: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(drop, drop, Say(text="ok")) as wire:
        asked = Asked(wire, name, monkeypatch)
        with pytest.raises(ModelAwayError, match="lost 2 replies"):
            asked.ask()
        assert len(wire.requests) == 2
        assert asked.ask().text == "ok"


@pytest.mark.parametrize("slow", [Hang(seconds=3.0), Endless()])
def test_reply_that_does_not_come_is_asked_for_once_more_only(
    slow: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All providers at once: the waiting is real."""
    with ExitStack() as stack:
        wires = [stack.enter_context(serve(slow)) for _ in NAMES]
        asked = [
            Asked(wire, name, monkeypatch, call_s=0.5)
            for wire, name in zip(wires, NAMES, strict=True)
        ]

        async def run() -> list[Reply | BaseException]:
            return await asyncio.gather(*(a.reply() for a in asked), return_exceptions=True)

        for found in asyncio.run(run()):
            assert isinstance(found, ModelAwayError)
            assert "lost 2 replies" in str(found)
        # On a busy machine the second one may not arrive in time.
        assert all(1 <= len(wire.requests) <= 2 for wire in wires)


@pytest.mark.parametrize("after_bytes", [0, 60, 500, 900])
def test_stream_that_breaks_is_asked_for_once_more_only(
    after_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(Drop(after_bytes=after_bytes)) as wire:
        with pytest.raises(ModelAwayError, match="lost 2 replies"):
            Asked(wire, ANTHROPIC, monkeypatch).ask(tokens=16_384)
        assert len(wire.requests) == 2
        assert wire.requests[0]["stream"]


@EACH
def test_refused_request_is_not_repeated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Fail(status=400, code="invalid_request_error", message="the tool is odd")) as wire:
        with pytest.raises(ModelError, match="the tool is odd") as caught:
            Asked(wire, name, monkeypatch).ask()
        assert len(wire.requests) == 1
    assert not isinstance(caught.value, ModelAwayError)


def test_calls_go_back_as_our_history_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI refuses a call with its id and without the reasoning that led to it."""
    big = {"source": "#" * (2 << 20)}
    with serve(Say(calls=(("verify_kernel", big),)), Say(text="ok")) as wire:
        asked = Asked(wire, RESPONSES, monkeypatch)
        (call,) = asked.ask().tool_calls
        said = Message(role=Role.ASSISTANT, tool_calls=(call,))
        answer = Message(role=Role.TOOL, content="too big", tool_call_id=call.id)
        asked.ask((*BEGIN, said, answer))
        (sent,) = [i for i in wire.requests[1]["input"] if i.get("type") == "function_call"]
    assert "id" not in sent
    assert (sent["call_id"], json.loads(sent["arguments"])) == (call.id, {})


def test_reasoning_costs_no_request_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Say(text="ok", cached=200)) as wire:
        reply = Asked(wire, RESPONSES, monkeypatch).ask()
        assert len(wire.requests) == 1
    assert reply.usage == Usage(input_tokens=1000, output_tokens=50, cached_tokens=200)


@EACH
def test_refusal_is_no_failure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = ask(name, monkeypatch, Say(text="I won't.", stop="content_filter"))
    assert reply.stop is StopReason.REFUSAL


@EACH
def test_cut_off_text_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = ask(name, monkeypatch, Say(text="import", stop="length"))
    assert (reply.stop, reply.text) == (StopReason.LENGTH, "import")


@EACH
def test_call_of_a_cut_off_reply_is_not_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: tuple[tuple[str, object], ...] = (
        ("verify_kernel", {"source": "a"}),
        ("verify_kernel", {}),
    )
    reply = ask(name, monkeypatch, Say(calls=calls, stop="length"), tokens=50)
    assert [bool(c.fault) for c in reply.tool_calls] == [False, True]
    assert "cut off at its limit of 50 tokens" in reply.tool_calls[1].fault


@pytest.mark.parametrize("given", ['{"source": "imp', "{]", '{"source": }'])
def test_malformed_call_has_a_fault(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = ask(COMPATIBLE, monkeypatch, Say(calls=(("verify_kernel", given),)))
    (call,) = reply.tool_calls
    assert call.fault.startswith("The call's arguments are no JSON object")
    assert call.arguments == {}


@EACH
def test_ten_megabytes_of_argument_are_not_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = (("verify_kernel", {"source": "#" * (10 << 20)}),)
    reply = ask(name, monkeypatch, Say(calls=calls))
    (call,) = reply.tool_calls
    assert "bytes, and the limit is" in call.fault
    assert call.arguments == {}


@EACH
def test_empty_answer_is_empty_and_can_be_sent_back(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(Say(), Say(text="ok")) as wire:
        asked = Asked(wire, name, monkeypatch)
        empty = asked.ask()
        assert (empty.text, empty.tool_calls, empty.stop) == ("", (), StopReason.DONE)
        talk = (
            *BEGIN,
            Message(role=Role.ASSISTANT, content=""),
            Message(role=Role.USER, content="Send the kernel."),
        )
        assert asked.ask(talk).text == "ok"
        assert name != ANTHROPIC or "''" not in str(wire.requests[1]["messages"])


@pytest.mark.parametrize("body", [b"<html>gateway</html>", b"[]", b""])
def test_answer_that_is_no_reply_is_an_error_of_the_model(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(Raw(body=body)) as wire:
        with pytest.raises(ModelError):
            Asked(wire, COMPATIBLE, monkeypatch).ask()
        assert len(wire.requests) <= 6


NO_ID = {"id": None, "type": "function", "function": {"name": "verify_kernel", "arguments": "{}"}}
NO_NAME = {"id": "a", "type": "function", "function": {"name": None, "arguments": "{}"}}


def choose(message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop"}
    return {**openai_body(Say(), "m"), "choices": [choice | message]}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {**openai_body(Say(), "m"), "choices": []},
        choose({}),
        choose({"message": None}),
        choose({"message": {"role": "assistant", "tool_calls": [NO_ID]}}),
        choose({"message": {"role": "assistant", "tool_calls": [NO_NAME]}}),
    ],
    ids=["nothing", "no-choices", "no-message", "null-message", "no-id", "no-name"],
)
def test_answer_without_its_parts_is_a_lost_reply(
    body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(Raw(body=json.dumps(body).encode())) as wire:
        with pytest.raises(ModelAwayError, match="lost 2 replies: its answer cannot be read"):
            Asked(wire, COMPATIBLE, monkeypatch).ask()
        assert len(wire.requests) == 2


@EACH
def test_half_of_a_character_is_replaced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    say = Say(
        text="x \ud800 y", calls=(("verify_kernel", {"source": "# \udfff", "n": ["\ud800"]}),)
    )
    reply = ask(name, monkeypatch, say)
    assert reply.text == "x \ufffd y"
    assert reply.tool_calls[0].arguments == {"source": "# \ufffd", "n": ["\ufffd"]}
    assert msgspec.json.decode(msgspec.json.encode(reply), type=Reply) == reply


def test_bedrock_is_asked_by_converse(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiobotocore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    calls = (("verify_kernel", {"source": "a"}),)
    with serve(Say(calls=calls)) as wire:
        monkeypatch.setenv("BEDROCK_BASE_URL", wire.url)
        asked = Asked(wire, "bedrock/amazon.nova-pro-v1:0", monkeypatch)
        reply = asked.ask(TALK)
        assert wire.paths[0].endswith("/converse")
    assert [c.name for c in reply.tool_calls] == ["verify_kernel"]
    assert reply.usage.input_tokens == 1000
