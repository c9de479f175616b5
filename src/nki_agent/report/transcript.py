"""A conversation as people read it: what was said, each kernel as a change of the last one.

Law: nothing that matters is left out; a kernel is shown whole once, then as a difference. Text of
models and kernels is cleaned of control characters, line by line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from nki_agent.agent.trajectory import Event, Finished, Started, ToolRun, Turn
from nki_agent.llm.protocol import Json, Message, Role

CONTEXT_LINES = 2
VALUE_CHARACTERS_MAX = 400
LINES_MAX = 400
"""Of one text; a model that repeats itself for ever is counted."""
MS_PER_S = 1e3


class Tone(StrEnum):
    """What a line is, for colours."""

    HEAD = "head"
    MODEL = "model"
    CALL = "call"
    CODE = "code"
    ADDED = "added"
    REMOVED = "removed"
    ANSWER = "answer"
    QUIET = "quiet"


Line = tuple[Tone, str]


class Transcript:
    """Turns the events of one run into lines, in order; it keeps the last kernel."""

    def __init__(self, *, with_prompts: bool = False) -> None:
        """`with_prompts` shows the system prompt and the task too."""
        self._with_prompts = with_prompts
        self._last: str | None = None

    def write(self, event: Event) -> Iterator[Line]:
        """The lines of one event."""
        match event:
            case Started():
                yield Tone.HEAD, f"{event.task}: {event.model} for {event.target}, {event.mode}"
                yield Tone.QUIET, f"prompt {event.prompt_hash}, begun {event.at}"
            case Turn():
                yield from self._write_turn(event)
            case ToolRun():
                yield Tone.CALL, f"  ← {_clean(event.name)}, {event.wall_ms / MS_PER_S:.1f} s"
                yield from _indent(Tone.ANSWER, event.result)
            case Finished():
                yield Tone.HEAD, f"{event.end.value.replace('_', ' ')} after {event.turns} turns"
                yield from _indent(Tone.ANSWER, event.message)

    def _write_turn(self, turn: Turn) -> Iterator[Line]:
        for message in turn.sent:
            yield from self._write_sent(message, is_first=turn.turn == 1)
        reply = turn.reply
        head = f"turn {turn.turn}, {turn.model_ms / MS_PER_S:.1f} s"
        if reply.usage.input_tokens or reply.usage.output_tokens:
            head += f", {reply.usage.input_tokens} tokens in, {reply.usage.output_tokens} out"
        yield Tone.HEAD, head
        if reply.text.strip() or not reply.tool_calls:
            yield from _indent(Tone.MODEL, reply.text.strip() or f"(nothing; {reply.stop})")
        for call in reply.tool_calls:
            yield from self._write_call(call.name, call.arguments)

    def _write_sent(self, message: Message, *, is_first: bool) -> Iterator[Line]:
        """Tools' answers are shown when they come; prompts are long."""
        match message.role:
            case Role.TOOL | Role.ASSISTANT:
                return
            case Role.SYSTEM | Role.USER if self._with_prompts or not is_first:
                yield Tone.QUIET, message.role.value
                yield from _indent(Tone.QUIET, message.content)
            case Role.SYSTEM:
                yield Tone.QUIET, f"system: {len(message.content)} characters"
            case Role.USER:
                first = (message.content.strip().splitlines() or [""])[0]
                more = len(message.content) - len(first)
                yield Tone.QUIET, f"user: {_clean(first)}" + (f" (+{more})" if more > 1 else "")

    def _write_call(self, name: str, arguments: Json) -> Iterator[Line]:
        source = arguments.get("source")
        if not isinstance(source, str):
            given = ", ".join(f"{_clean(key)}={_value(v)}" for key, v in arguments.items())
            yield Tone.CALL, f"  → {_clean(name)}({given})"
            return
        if self._last is None:
            yield Tone.CALL, f"  → {_clean(name)} with this kernel"
            yield from _indent(Tone.CODE, source)
        elif source == self._last:
            yield Tone.CALL, f"  → {_clean(name)} with the same kernel"
        else:
            yield Tone.CALL, f"  → {_clean(name)} with this change"
            yield from diff_kernels(self._last, source)
        self._last = source


def diff_kernels(before: str, after: str) -> Iterator[Line]:
    """What changed from one kernel to the next; places in place of file names."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT_LINES
    )
    for number, line in enumerate(lines):
        if number < len(("---", "+++")):
            continue
        tone = {"+": Tone.ADDED, "-": Tone.REMOVED, "@": Tone.QUIET}.get(line[:1], Tone.CODE)
        yield tone, f"    {_clean(line)}"


def _value(value: object) -> str:
    text = _clean(msgspec.json.encode(value).decode())
    if len(text) <= VALUE_CHARACTERS_MAX:
        return text
    return f"{text[:VALUE_CHARACTERS_MAX]}… ({len(text)} characters)"


def _indent(tone: Tone, text: str) -> Iterator[Line]:
    lines = text.splitlines()
    for line in lines[:LINES_MAX]:
        yield tone, f"    {_clean(line)}".rstrip()
    if len(lines) > LINES_MAX:
        yield Tone.QUIET, f"    … and {len(lines) - LINES_MAX} more lines"


def _clean(line: str) -> str:
    """One line without control characters; a tab is four spaces."""
    return "".join(c if c.isprintable() else "�" for c in line.expandtabs(4))
