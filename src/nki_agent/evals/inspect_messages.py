"""An episode as Inspect's log viewer shows it: the whole conversation, and what tools did when.

Law: every call has its answer under its tool's name, the last ones of an episode too; what tools
say is in the conversation, and in the timeline only how far a kernel came and how long it took.
Needs the extra `agent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspect_ai.log import transcript
from inspect_ai.model import ChatMessageTool

from nki_agent.agent.trajectory import Event, Finished, Started, ToolRun, Turn, Waiting
from nki_agent.llm.inspect_model import to_inspect
from nki_agent.llm.protocol import Message, Role

SOURCE = "nki-agent"
MS_DIGITS = 1


def list_messages(events: Sequence[Event]) -> list[Any]:
    """The history of an episode as messages of Inspect."""
    messages: list[Any] = []
    names: dict[str, str] = {}
    answered: set[str] = set()
    for event in events:
        if not isinstance(event, Turn):
            continue
        for message in event.sent:
            answered.add(message.tool_call_id or "")
            messages.append(_to_message(message, names))
        reply = event.reply
        names |= {call.id: call.name for call in reply.tool_calls}
        said = Message(role=Role.ASSISTANT, content=reply.text, tool_calls=reply.tool_calls)
        messages.append(to_inspect(said))
    # Answers to the last turn are sent with no further one.
    messages += [
        ChatMessageTool(content=run.result, tool_call_id=run.call_id, function=run.name)
        for run in events
        if isinstance(run, ToolRun) and run.call_id not in answered
    ]
    return messages


def tell_event(event: Event | Waiting) -> None:
    """Put what happens into the sample's timeline while it happens."""
    match event:
        case ToolRun(turn=turn, name=name, stage=stage, wall_ms=wall_ms):
            transcript().info(
                {
                    "turn": turn,
                    "tool": name,
                    "stage": None if stage is None else stage.value,
                    "ms": round(wall_ms, MS_DIGITS),
                },
                source=SOURCE,
            )
        case Finished(end=end, message=message, turns=turns, stage=stage):
            transcript().info(
                {
                    "end": end.value,
                    "message": message,
                    "turns": turns,
                    "stage": None if stage is None else stage.value,
                },
                source=SOURCE,
            )
        case Started() | Turn() | Waiting():
            return


def _to_message(message: Message, names: dict[str, str]) -> Any:
    if message.role is not Role.TOOL:
        return to_inspect(message)
    return ChatMessageTool(
        content=message.content,
        tool_call_id=message.tool_call_id,
        function=names.get(message.tool_call_id or ""),
    )
