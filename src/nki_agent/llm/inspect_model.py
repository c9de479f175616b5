"""A model of Inspect as a Model of ours, so that its evaluations run our own episodes.

Law: what is sent is our history and nothing else; usage is what the provider counted. Needs the
extra `agent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import inspect_ai.model as inspect_model
from inspect_ai.tool import ToolCall as InspectToolCall
from inspect_ai.tool import ToolInfo, ToolParams

from nki_agent.llm.protocol import (
    Message,
    ModelError,
    Reply,
    Role,
    StopReason,
    TokenLimits,
    ToolCall,
    ToolSpec,
    Usage,
)

REFUSED = "content_filter"
CUT = frozenset({"max_tokens", "model_length"})


class InspectModel:
    """Asks a model that Inspect has set up."""

    def __init__(self, model: Any) -> None:
        """Ask `model`, an `inspect_ai.model.Model`."""
        self._model = model

    @property
    def name(self) -> str:
        """What Inspect calls it."""
        return str(self._model)

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        """The next turn.

        Raises:
            ModelError: the provider gave an error in place of an answer.
        """
        output = await self._model.generate(
            [to_inspect(message) for message in messages],
            tools=[_to_info(tool) for tool in tools],
            config=inspect_model.GenerateConfig(max_tokens=limits.output_tokens),
        )
        if output.error:
            raise ModelError(output.error)
        return to_reply(output)


def to_inspect(message: Message) -> Any:
    """One message of ours as one of Inspect's."""
    match message.role:
        case Role.SYSTEM:
            return inspect_model.ChatMessageSystem(content=message.content)
        case Role.USER:
            return inspect_model.ChatMessageUser(content=message.content)
        case Role.TOOL:
            return inspect_model.ChatMessageTool(
                content=message.content, tool_call_id=message.tool_call_id
            )
        case Role.ASSISTANT:
            calls = [
                InspectToolCall(id=call.id, function=call.name, arguments=call.arguments)
                for call in message.tool_calls
            ]
            return inspect_model.ChatMessageAssistant(
                content=message.content, tool_calls=calls or None
            )


def to_reply(output: Any) -> Reply:
    """What Inspect's model answered; a call that it could not parse has no arguments."""
    message, usage = output.message, output.usage
    calls = tuple(
        ToolCall(id=call.id, name=call.function, arguments=dict(call.arguments))
        for call in message.tool_calls or ()
    )
    return Reply(
        text=message.text,
        tool_calls=calls,
        usage=Usage()
        if usage is None
        else Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.input_tokens_cache_read or 0,
        ),
        stop=_to_stop(output.stop_reason, has_calls=bool(calls)),
    )


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
