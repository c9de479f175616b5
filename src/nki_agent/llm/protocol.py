"""What the agent loop says to a model and hears from it, as plain records.

Law: a history of messages is linear and append-only; a model keeps no state that it does not hold,
but for the place in a script or a connection.
Not covered: streaming, images.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from nki_agent.base.errors import NkiAgentError

Json = dict[str, Any]
"""A JSON object as plain data."""


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class StopReason(StrEnum):
    """Why a reply ended."""

    DONE = "done"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model asks for a tool; `id` is repeated by the answer."""

    id: str
    name: str
    arguments: Json = {}
    fault: str = ""
    """Why the call cannot be carried out as it came: cut off, not JSON, too big. The answer."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a model sees it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Json


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn of the history; `tool_call_id` only in a tool's answer."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one reply, as the provider counts them."""

    input_tokens: int = 0
    """All that was sent, also what was read from the provider's cache or written to it."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input: what the provider had kept, and charges less for."""
    cache_write_tokens: int = 0
    """Of the input: what it keeps from now on, and may charge more for."""

    @property
    def total_tokens(self) -> int:
        """Input and output."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Sum of both."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answered: text, tool calls, or both."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: StopReason = StopReason.DONE
    usd: float | None = None
    """What it cost; None where no price is known."""
    retries: int = 0
    """Requests that failed before this one."""


class TokenLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Most tokens that a model may write in one reply."""

    output_tokens: int = 16_384


class Model(Protocol):
    """Anything that continues a history: a provider, a script, the built-in author."""

    @property
    def name(self) -> str:
        """How `--model` and the records call it."""

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        """The next turn.

        Raises:
            ModelError: no answer could be had.
        """


class ModelError(NkiAgentError):
    """A model gave no answer to this history: the script is used up, the request is refused."""


class ModelAwayError(ModelError):
    """The provider cannot be reached or does not let us in; says nothing about the model."""


class RunBudgetError(NkiAgentError):
    """The run's budget is used up: the next reply is not asked for."""
