"""What is wrong with rows of trajectories before a model learns them.

Law: every rule names its row and what it found. Leaks of the benchmark are looked for by others,
in the same texts: `list_texts` gives them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from nki_agent.agent.loop import find_kernel
from nki_agent.agent.tool_specs import (
    ProfileArguments,
    QueryArguments,
    ShowArguments,
    SourceArguments,
    SourcesArguments,
)
from nki_agent.base.diagnostic import clean
from nki_agent.base.hashes import hash_text
from nki_agent.corpus.chat import ChatCall, ChatMessage, ChatRow, Kind, list_kernels
from nki_agent.corpus.publishing import TOKENS_MAX
from nki_agent.corpus.record import CorpusTask
from nki_agent.llm.protocol import Role

ARGUMENTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "compile_kernel": SourceArguments,
    "find_kernels": QueryArguments,
    "look_up": QueryArguments,
    "profile_kernel": ProfileArguments,
    "show_program": ShowArguments,
    "submit": SourceArguments,
    "verify_kernel": SourceArguments,
    "verify_many": SourcesArguments,
}
OPENING: Final = (Role.SYSTEM, Role.USER)


def lint_row(
    row: ChatRow,
    *,
    tasks: Mapping[str, CorpusTask],
    kernels: Collection[tuple[str, str]],
    tokens_max: int = TOKENS_MAX,
) -> Iterator[str]:
    """What is wrong with one row; `kernels` are task and hash of every kernel judged right."""
    yield from _lint_task(row, tasks)
    yield from _lint_form(row)
    yield from _lint_calls(row)
    yield from _lint_kernel(row, kernels)
    if row.num_tokens > tokens_max:
        yield f"it has {row.num_tokens} tokens, and the limit is {tokens_max}"


def list_texts(row: ChatRow) -> Iterator[str]:
    """All text of a row in which something could have leaked."""
    for message in row.messages:
        yield message.content
    yield from list_kernels(row.messages)


def _lint_task(row: ChatRow, tasks: Mapping[str, CorpusTask]) -> Iterator[str]:
    task = tasks.get(row.task)
    if task is None:
        yield f"the corpus has no task `{clean(row.task)}`"
    elif task.sha256 != row.task_sha256:
        yield "it is of another text of its task"
    elif task.split is not row.split:
        yield f"it is in {row.split.value}, and its task in {task.split.value}"


def _lint_form(row: ChatRow) -> Iterator[str]:
    roles = [message.role for message in row.messages]
    if len(row.trained) != len(roles):
        yield f"it has {len(roles)} messages and {len(row.trained)} marks of what is trained"
        return
    first = roles[: len(OPENING)]
    if first[:1] != [Role.USER] and tuple(first) != OPENING:
        yield "it does not begin with the system and the user"
    if roles[-1:] != [Role.ASSISTANT]:
        yield "its last message is not the assistant's"
    if not any(row.trained):
        yield "nothing in it is trained"
    if any(t and role is not Role.ASSISTANT for t, role in zip(row.trained, roles, strict=True)):
        yield "it trains what the assistant did not say"
    yield from _lint_answers(row.messages)


def _lint_answers(messages: tuple[ChatMessage, ...]) -> Iterator[str]:
    """Every call but the last message's has its answer right after it."""
    waiting: list[str] = []
    for number, message in enumerate(messages, start=1):
        if message.role is Role.TOOL:
            if message.tool_call_id not in waiting:
                yield f"message {number} answers no call"
            else:
                waiting.remove(message.tool_call_id)
            continue
        if waiting:
            yield f"a call before message {number} has no answer"
        waiting = [call.id for call in message.tool_calls]
        if message.role is Role.ASSISTANT and not message.content and not waiting:
            yield f"message {number} is empty"


def _lint_calls(row: ChatRow) -> Iterator[str]:
    offered = {_name_of(tool) for tool in row.tools}
    seen: set[bytes] = set()
    for message in row.messages:
        for call in message.tool_calls:
            name = call.function.name
            if name not in offered:
                yield f"it calls `{clean(name)}`, which is not offered"
            elif fault := find_fault(call):
                yield f"a call of `{name}` does not fit: {fault}"
            # A call without a kernel means the last one, so it may be the same and mean another.
            key = msgspec.json.encode([name, call.function.arguments])
            if key in seen and call.function.arguments.get("source"):
                yield f"it calls `{name}` twice with the same arguments"
            seen.add(key)


def find_fault(call: ChatCall) -> str:
    """Why a call can't be carried out as it is; empty where it can."""
    kind = ARGUMENTS.get(call.function.name)
    if kind is None:
        return "there is no such tool"
    try:
        msgspec.convert(call.function.arguments, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _lint_kernel(row: ChatRow, kernels: Collection[tuple[str, str]]) -> Iterator[str]:
    if row.kind is Kind.CLIMB:
        return
    last = find_last(row.messages)
    if last is None:
        yield "it holds no kernel"
    elif hash_text(last) != row.kernel_sha256:
        yield "its last kernel is not the one that its hash is of"
    if (row.task, row.kernel_sha256) not in kernels:
        yield "its last kernel is in no file of solutions"


def find_last(messages: tuple[ChatMessage, ...]) -> str | None:
    """The last kernel that is sent to a tool, else the last one in a text of the assistant."""
    if sent := list_kernels(messages):
        return sent[-1]
    texts = [m.content for m in messages if m.role is Role.ASSISTANT]
    return find_kernel(texts[-1]) if texts else None


def _name_of(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    return str(function.get("name", "")) if isinstance(function, Mapping) else ""
