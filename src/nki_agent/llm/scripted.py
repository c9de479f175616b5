r"""A model that says what it was told to say: for tests, demonstrations and replays by hand.

A script is a file of JSON lines. Each line is a text, or a record with `text` and `tool_calls`:

    "I begin with the rows."
    {"tool_calls": [{"name": "verify_kernel", "arguments": {"source": "import nki\n..."}}]}

Law: the same script gives the same replies whatever it is asked; after its last line it raises. A
history that already holds replies goes on after them, as when a killed run is taken up again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from nki_agent.base.bounded import UnreadableError, read_text
from nki_agent.base.counting import count_of
from nki_agent.base.errors import UsageError
from nki_agent.llm.protocol import (
    Json,
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

SCRIPT_BYTES_MAX = 64 * 2**20
"""Of a file or a pipe; far more than any conversation."""


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call in a script; its id is made from its place."""

    name: str
    arguments: Json = {}


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a script."""

    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: Usage = Usage()
    stop: StopReason | None = None


class ScriptedModel:
    """Gives the replies of a script, one a call."""

    def __init__(self, replies: Iterable[str | ScriptedReply], *, name: str = "scripted") -> None:
        """Keep the script; a text stands for a reply without tool calls."""
        self.name = name
        self._replies = tuple(_resolve(index, line) for index, line in enumerate(replies))
        self._next = 0

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        """The script's next reply; ModelError when it is used up."""
        del tools, limits
        said = sum(message.role is Role.ASSISTANT for message in messages)
        self._next = max(self._next, said)
        if self._next >= len(self._replies):
            whole = count_of(len(self._replies), "reply", "replies")
            raise ModelError(f"the script of `{self.name}` ends after {whole}")
        self._next += 1
        return self._replies[self._next - 1]


def read_script(path: Path) -> tuple[str | ScriptedReply, ...]:
    """The replies in the file at `path`; UsageError names the file and the line that is wrong."""
    try:
        text = read_text(path, SCRIPT_BYTES_MAX, takes_pipe=True)
    except UnreadableError as error:
        raise UsageError(
            f"cannot read the script `{path}`: it {error}",
            hint="`--model scripted/FILE` takes a file of JSON lines, one reply a line",
        ) from error
    decoder = msgspec.json.Decoder(str | ScriptedReply)
    replies: list[str | ScriptedReply] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            replies.append(decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise UsageError(
                f"{path}:{number}: not a reply: {error}",
                hint="a line is a JSON text, or a record with `text` and `tool_calls`",
            ) from error
    return tuple(replies)


def _resolve(index: int, line: str | ScriptedReply) -> Reply:
    if isinstance(line, str):
        return Reply(text=line)
    calls = tuple(
        ToolCall(id=f"call-{index}-{place}", name=call.name, arguments=call.arguments)
        for place, call in enumerate(line.tool_calls)
    )
    stop = line.stop or (StopReason.TOOL_CALLS if calls else StopReason.DONE)
    return Reply(text=line.text, tool_calls=calls, usage=line.usage, stop=stop)
