"""One conversation as a row for training: OpenAI's form of messages, tools and calls.

Law: arguments of calls are objects, as chat templates want them; a tool's answer is exactly what
the agent's tool gave. `trained` says which messages a model learns to write: never the system's,
the user's or a tool's, and never a kernel that is known to be faulty. The last message is the
assistant's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

import nki_agent
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text
from nki_agent.corpus.record import CorpusTask, Family, Solution, Split
from nki_agent.llm.protocol import Json, Message, Role, ToolCall, ToolSpec

SCHEMA: Final = 1
"""Raised by every change that an older reader would misread."""
BYTES_PER_TOKEN: Final = 4
ESTIMATE: Final = "bytes/4"
FUNCTION: Final = "function"


class Kind(StrEnum):
    """How a conversation came about."""

    AUTHOR = "author"
    """The built-in author's own episode with its tools."""
    SINGLE_SHOT = "single-shot"
    """One answer without tools."""
    REPAIR = "repair"
    """A kernel with one planted fault, its diagnostic, and the mended kernel."""
    OPTIMIZE = "optimize"
    """From a slow kernel to a fast one, by the steps of a search that were faster."""
    SHORT = "short"
    """One answer to a few lines, for models with a short context."""
    SAMPLED = "sampled"
    """Another model's episode that ended right."""
    CLIMB = "climb"
    """The steps of a failed episode that came further than those before."""


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """What is called; `arguments` is an object."""

    name: str
    arguments: Json


class ChatCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call in OpenAI's form."""

    id: str
    type: str = FUNCTION
    function: FunctionCall


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message in OpenAI's form; `name` is the tool's in its answer."""

    role: Role
    content: str
    tool_calls: tuple[ChatCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


class ChatRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the trajectories."""

    schema: int = SCHEMA
    id: str
    """`<task>/<kind>/<number>`."""
    task: str
    task_sha256: str
    family: Family
    level: int
    kind: Kind
    split: Split
    dialect: str
    target: str
    author: str
    """The model that wrote what is trained."""
    messages: tuple[ChatMessage, ...]
    tools: tuple[Json, ...]
    """In OpenAI's form; empty where none are offered."""
    trained: tuple[bool, ...]
    """For each message, whether a model learns to write it."""
    num_tokens: int
    """Of messages and tools, counted by `counted_by`."""
    counted_by: str = ESTIMATE
    kernel_sha256: str
    """Of the last kernel; empty where none is right."""
    prompt_hash: str
    fault: str = ""
    """`family/name` of a planted fault."""
    stages: tuple[str, ...] = ()
    """How far each kernel that was judged or looked at came."""
    tool_version: str = nki_agent.__version__


CountTokens = Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """Tokens of a text by its bytes.

    >>> estimate_tokens("import nki")
    3
    """
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def make_counter(folder: Path | None) -> tuple[str, CountTokens]:
    """How tokens are counted: by the tokenizer in a folder, else by bytes.

    Raises:
        UsageError: The folder holds no tokenizer, or the package for it is not installed.
    """
    if folder is None:
        return ESTIMATE, estimate_tokens
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - heavy and optional
    except ImportError as error:
        raise UsageError(
            "counting by a tokenizer needs the package `tokenizers`",
            hint="`pip install '.[hf]'` in the checkout, or leave `--tokenizer` out",
        ) from error
    file = folder / "tokenizer.json" if folder.is_dir() else folder
    try:
        found = Tokenizer.from_file(str(file))
    except Exception as error:
        raise UsageError(f"`{file}` is no tokenizer: {error}") from error

    def count(text: str) -> int:
        return len(found.encode(text, add_special_tokens=False).ids)

    return file.parent.name, count


def convert_message(message: Message, names: Mapping[str, str]) -> ChatMessage:
    """A message of the loop in OpenAI's form; `names` are the tools of the calls by id."""
    call_id = message.tool_call_id
    return ChatMessage(
        role=message.role,
        content=message.content,
        tool_calls=tuple(map(convert_call, message.tool_calls)),
        tool_call_id=call_id,
        name=None if call_id is None else names.get(call_id),
    )


def convert_call(call: ToolCall) -> ChatCall:
    """A call in OpenAI's form."""
    return ChatCall(id=call.id, function=FunctionCall(name=call.name, arguments=call.arguments))


def convert_messages(messages: Sequence[Message]) -> tuple[ChatMessage, ...]:
    """A whole history, up to the last thing that the assistant says."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    last = max(i for i, message in enumerate(messages) if message.role is Role.ASSISTANT)
    return tuple(convert_message(message, names) for message in messages[: last + 1])


def convert_tools(specs: Sequence[ToolSpec]) -> tuple[Json, ...]:
    """Tools in OpenAI's form."""
    return tuple(
        {
            "type": FUNCTION,
            FUNCTION: {
                "name": spec.name,
                "description": spec.description,
                "parameters": spec.parameters,
            },
        }
        for spec in specs
    )


def count_row(
    messages: Sequence[ChatMessage], tools: Sequence[Json], count: CountTokens = estimate_tokens
) -> int:
    """Tokens of a row: all that is said, and the tools as JSON."""
    total = count(msgspec.json.encode(tools).decode()) if tools else 0
    for message in messages:
        total += count(message.content)
        for call in message.tool_calls:
            total += count(call.function.name)
            total += sum(count(_as_text(value)) for value in call.function.arguments.values())
    return total


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def train_all(messages: Sequence[ChatMessage]) -> tuple[bool, ...]:
    """Every message of the assistant is learned."""
    return tuple(message.role is Role.ASSISTANT for message in messages)


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind knows of a row; the task gives the rest."""

    kind: Kind
    number: int = 0
    author: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[Json, ...] = ()
    trained: tuple[bool, ...]
    prompt_hash: str
    kernel: str = ""
    fault: str = ""
    stages: tuple[str, ...] = ()


def make_row(row: CorpusTask, draft: Draft, *, dialect: str, target: str) -> ChatRow:
    """The whole row of a draft."""
    return ChatRow(
        id=f"{row.id}/{draft.kind.value}/{draft.number}",
        task=row.id,
        task_sha256=row.sha256,
        family=row.family,
        level=row.level,
        kind=draft.kind,
        split=row.split,
        dialect=dialect,
        target=target,
        author=draft.author,
        messages=draft.messages,
        tools=draft.tools,
        trained=draft.trained,
        num_tokens=count_row(draft.messages, draft.tools),
        kernel_sha256=hash_text(draft.kernel) if draft.kernel else "",
        prompt_hash=draft.prompt_hash,
        fault=draft.fault,
        stages=draft.stages,
    )


def list_kernels(messages: Sequence[ChatMessage]) -> list[str]:
    """Every kernel that is sent to a tool, in order."""
    return [
        call.function.arguments["source"]
        for message in messages
        for call in message.tool_calls
        if isinstance(call.function.arguments.get("source"), str)
    ]


Solutions = Mapping[str, Solution]
