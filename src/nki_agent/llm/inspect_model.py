"""A model of Inspect as a Model of ours, so that its providers and evaluations run our episodes.

Law: what is sent is our history and nothing else; usage is what the provider counted. Inspect and
the SDKs below it ask once; asking again is decided here, so it is bounded and told. Needs the extra
`agent`. Not covered: a provider's reasoning is not sent back to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import inspect_ai.model as inspect_model
import msgspec
from inspect_ai.tool import ToolCall as InspectToolCall
from inspect_ai.tool import ToolInfo, ToolParams

from nki_agent.llm.failure import UNREADABLE, Failure, Kind, classify, describe
from nki_agent.llm.keys import hide_keys
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
from nki_agent.llm.sealing import seal

REFUSED = "content_filter"
CUT = frozenset({"max_tokens", "model_length"})
ARGUMENTS_BYTES_MAX = 1 << 20
"""Bigger arguments of a call are not kept: each later turn would send, and pay, them again."""
GOLDEN = 0.6180339887
"""Steps of it never fall together: waits of many episodes spread without chance."""
SPREAD = 0.5
CUT_CALL = (
    "The reply was cut off at its limit of {limit} tokens, before this call was whole. It was not"
    " carried out. Write less text, or a shorter kernel, and call again."
)
BAD_CALL = "The call's arguments are no JSON object, so it was not carried out: {reason}"
BIG_CALL = (
    "The call's arguments have {size} bytes, and the limit is {limit}. It was not carried out."
)

Sleep = Callable[[float], Awaitable[None]]


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often and how long a provider is asked again."""

    requests: int = 6
    """Most requests for one reply, where the earlier ones were turned away or not sent."""
    lost: int = 2
    """Most requests for one reply whose answers are lost: each may have been paid."""
    first_wait_s: float = 1.0
    """Doubles with each failure."""
    wait_max_s: float = 60.0
    retry_after_max_s: float = 300.0
    """A provider that asks for a longer wait is not waited for."""
    call_s: float = 600.0
    """A request that takes longer counts as lost."""


class InspectModel:
    """Asks a model that Inspect has set up."""

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        policy: RetryPolicy | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Ask `model`, an `inspect_ai.model.Model`."""
        seal(model.api)
        self._model = model
        self._name = name
        self._policy = policy or RetryPolicy()
        self._sleep = sleep
        self._shut: Failure | None = None
        self._waits = 0

    @property
    def name(self) -> str:
        """What `--model` or Inspect calls it."""
        return self._name or str(self._model)

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        """The next turn.

        Raises:
            ModelError: the provider refuses this request, or gave an error in place of an answer.
            ModelAwayError: it cannot be reached, or does not let us in.
        """
        counts = dict.fromkeys(Kind, 0)
        while True:
            failure = self._shut or await self._try(messages, tools, limits, counts)
            if isinstance(failure, Reply):
                return failure
            counts[failure.kind] += 1
            self._require_hope(failure, counts)
            await self._sleep(self._find_wait(failure, sum(counts.values())))

    async def close(self) -> None:
        """Close its connections, in the loop that opened them; a later request opens new ones."""
        await self._model.api.aclose()
        self._model.api.initialize()

    async def _try(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        limits: TokenLimits,
        counts: dict[Kind, int],
    ) -> Reply | Failure:
        """One request."""
        try:
            async with asyncio.timeout(self._policy.call_s):
                output = await self._model.generate(
                    list(_to_history(messages)),
                    tools=[_to_info(tool) for tool in tools],
                    config=inspect_model.GenerateConfig(max_tokens=limits.output_tokens),
                )
        except TimeoutError:
            return Failure(kind=Kind.LOST, message=f"no answer within {self._policy.call_s:g} s")
        except Exception as error:  # noqa: BLE001 - whatever an SDK raises is a failed request
            return classify(error, self._model.api)
        if output.error:
            raise ModelError(output.error)
        try:
            reply = to_reply(output, limit=limits.output_tokens)
        except Exception as error:  # noqa: BLE001 - a provider may send anything
            return Failure(kind=Kind.LOST, message=UNREADABLE.format(reason=describe([error])))
        return msgspec.structs.replace(reply, retries=sum(counts.values()))

    def _require_hope(self, failure: Failure, counts: dict[Kind, int]) -> None:
        """Raise where asking again cannot help or was done often enough."""
        policy, total = self._policy, sum(counts.values())
        match failure.kind:
            case Kind.REQUEST:
                raise ModelError(f"{self.name} refuses the request: {failure.message}")
            case Kind.ACCESS:
                self._shut = failure
                raise ModelAwayError(f"{self.name} is closed to us: {failure.message}")
            case Kind.LOST if counts[Kind.LOST] >= policy.lost:
                raise ModelAwayError(f"{self.name} lost {policy.lost} replies: {failure.message}")
            case Kind.BUSY if (failure.retry_after_s or 0.0) > policy.retry_after_max_s:
                raise ModelAwayError(
                    f"{self.name} asks to wait {failure.retry_after_s:g} s: {failure.message}"
                )
            case Kind.BUSY | Kind.UNSENT | Kind.LOST if total >= policy.requests:
                raise ModelAwayError(f"{self.name}, asked {total} times: {failure.message}")
            case Kind.BUSY | Kind.UNSENT | Kind.LOST:
                return

    def _find_wait(self, failure: Failure, number: int) -> float:
        """What the provider asks for; else twice as long each time, spread between episodes."""
        self._waits += 1
        wait_s = min(self._policy.wait_max_s, self._policy.first_wait_s * 2.0 ** (number - 1))
        spread = 1.0 + SPREAD * (self._waits * GOLDEN % 1.0)
        return max(failure.retry_after_s or 0.0, wait_s) * spread


def _to_history(messages: Sequence[Message]) -> Iterator[Any]:
    """All messages; some providers want an answer to name its tool."""
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.id: call.name for call in message.tool_calls}
        yield to_inspect(message, tool=names.get(message.tool_call_id or ""))


def to_inspect(message: Message, *, tool: str | None = None) -> Any:
    """One message of ours as one of Inspect's; `tool` is whose answer it is."""
    match message.role:
        case Role.SYSTEM:
            return inspect_model.ChatMessageSystem(content=message.content)
        case Role.USER:
            return inspect_model.ChatMessageUser(content=message.content)
        case Role.TOOL:
            return inspect_model.ChatMessageTool(
                content=message.content, tool_call_id=message.tool_call_id, function=tool
            )
        case Role.ASSISTANT:
            calls = [
                InspectToolCall(id=call.id, function=call.name, arguments=call.arguments)
                for call in message.tool_calls
            ]
            return inspect_model.ChatMessageAssistant(
                content=message.content, tool_calls=calls or None
            )


def to_reply(output: Any, *, limit: int = TokenLimits().output_tokens) -> Reply:
    """What Inspect's model answered; a call that is not whole has a fault and no arguments."""
    message, usage = output.message, output.usage
    stop = _to_stop(output.stop_reason, has_calls=bool(message.tool_calls))
    calls = [_to_call(call) for call in message.tool_calls or ()]
    if calls and stop is StopReason.LENGTH:
        # Cut-off arguments can look like whole ones: some providers then send an empty object.
        calls[-1] = ToolCall(
            id=calls[-1].id, name=calls[-1].name, fault=CUT_CALL.format(limit=limit)
        )
    return Reply(
        text=hide_keys(_mend(message.text)),  # a text of several parts was hidden part by part
        tool_calls=tuple(calls),
        usage=Usage() if usage is None else _to_usage(usage),
        stop=stop,
    )


def _to_usage(usage: Any) -> Usage:
    read, write = usage.input_tokens_cache_read or 0, usage.input_tokens_cache_write or 0
    return Usage(
        input_tokens=usage.input_tokens + read + write,
        output_tokens=usage.output_tokens,
        cached_tokens=read,
        cache_write_tokens=write,
    )


def _to_call(call: Any) -> ToolCall:
    if not (isinstance(call.id, str) and isinstance(call.function, str)):
        raise TypeError("a tool call has no id or no name")
    arguments, fault = _mend(call.arguments), ""
    if call.parse_error:
        fault = BAD_CALL.format(reason=" ".join(_mend(call.parse_error).split())[:200])
    elif (size := len(msgspec.json.encode(arguments))) > ARGUMENTS_BYTES_MAX:
        fault = BIG_CALL.format(size=size, limit=ARGUMENTS_BYTES_MAX)
    return ToolCall(
        id=_mend(call.id),
        name=_mend(call.function),
        arguments={} if fault else dict(arguments),
        fault=fault,
    )


def _mend(value: Any) -> Any:
    """The same with valid Unicode: half of a surrogate pair can be neither stored nor sent."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_mend(key): _mend(item) for key, item in value.items()}
        case list():
            return [_mend(item) for item in value]
        case _:
            return value


def _to_stop(reason: str, *, has_calls: bool) -> StopReason:
    if reason == REFUSED:
        return StopReason.REFUSAL
    if reason in CUT:
        return StopReason.LENGTH
    return StopReason.TOOL_CALLS if has_calls else StopReason.DONE


def _to_info(tool: ToolSpec) -> ToolInfo:
    return ToolInfo(
        name=tool.name,
        description=tool.description,
        parameters=ToolParams.model_validate(tool.parameters),
    )
