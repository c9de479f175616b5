"""Between OpenAI's form of a chat and what a model's template and text know of tools.

Law: a template that shows tools is left alone; one that does not gets them in the system message,
and calls and answers as tagged text. A call in a reply is recognised in the forms of Hermes and of
Qwen3-Coder; what is not whole stays a call, with its text for arguments, so that it is answered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

HOW = (
    "You can call these tools:\n{tools}\n\nTo call one, write\n<tool_call>\n"
    '{{"name": "NAME", "arguments": {{"NAME": "VALUE"}}}}\n</tool_call>'
)
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"<function=([^>\s]+)>(.*)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_NAME = re.compile(r'"name"\s*:\s*"([^"]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """What a template is given."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[Any] | None
    has_tools: bool


def make_chat(request: Any, tokenizer: Any) -> Chat:
    """The chat of a request, in the form that the tokenizer's template knows."""
    tools = list(request.get("tools") or ())
    messages = [_clean(message) for message in request["messages"]]
    if not messages:
        raise ValueError("`messages` is empty")
    used = bool(tools) or any(m["role"] == "tool" or "tool_calls" in m for m in messages)
    knows = used and knows_tools(tokenizer)
    if used and not knows:
        messages = _write_tools(messages, tools)
    return Chat(
        model=str(request.get("model", "")),
        messages=messages,
        tools=tools if tools and knows else None,
        has_tools=bool(tools),
    )


def knows_tools(tokenizer: Any) -> bool:
    """Whether the template shows a tool that it is given."""
    parameters = {"type": "object", "properties": {}}
    probe = {"name": "a_probing_tool", "description": "d", "parameters": parameters}
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "x"}],
        tools=[{"type": "function", "function": probe}],
        tokenize=False,
        add_generation_prompt=True,
    )
    return "a_probing_tool" in text


def read_calls(text: str) -> tuple[str, list[dict[str, Any]]]:
    """The text without its calls, and the calls in OpenAI's form."""
    calls = []
    for number, found in enumerate(_CALL.finditer(text)):
        name, arguments = _read_call(found.group(1).strip())
        function = {"name": name, "arguments": arguments}
        calls.append({"id": f"call_{number}", "type": "function", "function": function})
    return _CALL.sub("", text).strip(), calls


def _read_call(body: str) -> tuple[str, str]:
    if function := _FUNCTION.match(body):
        given = dict(_PARAMETER.findall(function.group(2)))
        return function.group(1), msgspec.json.encode(given).decode()
    try:
        call = msgspec.json.decode(body)
        name, arguments = str(call["name"]), call.get("arguments") or {}
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError):
        found = _NAME.search(body)
        return (found.group(1) if found else "unknown"), "{" + body
    if isinstance(arguments, str):
        return name, arguments
    return name, msgspec.json.encode(arguments).decode()


def _clean(message: Any) -> dict[str, Any]:
    """Plain text as content, and arguments as objects, as templates want them."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    cleaned = {"role": message["role"], "content": content or ""}
    if cleaned["role"] == "developer":
        cleaned["role"] = "system"
    if calls := message.get("tool_calls"):
        cleaned["tool_calls"] = [
            {"type": "function", "function": _open(call["function"])} for call in calls
        ]
    return cleaned


def _open(function: Any) -> dict[str, Any]:
    try:
        arguments = msgspec.json.decode(function["arguments"])
    except msgspec.MsgspecError:
        arguments = {}
    return {"name": function["name"], "arguments": arguments}


def _write_tools(messages: Sequence[dict[str, Any]], tools: list[Any]) -> list[dict[str, Any]]:
    """Tools, calls and answers as text."""
    written: list[dict[str, Any]] = []
    for message in messages:
        content = message["content"]
        for call in message.get("tool_calls", ()):
            body = msgspec.json.encode(call["function"]).decode()
            content += f"\n<tool_call>\n{body}\n</tool_call>"
        if message["role"] == "tool":
            content = f"<tool_response>\n{content}\n</tool_response>"
        role = "user" if message["role"] == "tool" else message["role"]
        if written and written[-1]["role"] == role == "user":
            written[-1]["content"] += f"\n{content}"
        else:
            written.append({"role": role, "content": content.strip()})
    if tools:
        listed = "\n".join(msgspec.json.encode(tool["function"]).decode() for tool in tools)
        text = HOW.format(tools=listed)
        if written[0]["role"] == "system":
            written[0]["content"] += f"\n\n{text}"
        else:
            written.insert(0, {"role": "system", "content": text})
    return written
