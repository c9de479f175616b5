"""A model that says again what another one said, from the trajectory of a run.

Law: a reply is given only where the history is the one that it answered; the first difference is
named. Nothing is asked and nothing is paid.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from nki_agent.base.counting import count_of
from nki_agent.base.errors import UsageError
from nki_agent.llm.protocol import Message, ModelError, Reply, Role, TokenLimits, ToolSpec, Usage

RECORDED = "recorded"
TRAJECTORY, CONFIG = "trajectory.jsonl", "config.json"
SHOWN_MAX = 80
"""Characters of a line that differs."""
HINT = "`--model recorded/RUN`: the folder of a run, or the file `trajectory.jsonl` in it"


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a trajectory: the messages that were new in it, and the reply."""

    turn: int
    sent: tuple[Message, ...]
    reply: Reply


class RecordedModel:
    """Gives the replies of a recording, as long as it is asked the same."""

    def __init__(self, exchanges: Sequence[Exchange], *, name: str) -> None:
        """Keep the recording."""
        self.name = name
        self._exchanges = tuple(exchanges)

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        """The recorded reply to this history; ModelError names where it differs."""
        del tools, limits
        turn = sum(message.role is Role.ASSISTANT for message in messages)
        if turn >= len(self._exchanges):
            raise ModelError(
                f"the recording of `{self.name}` ends after {count_of(turn, 'reply', 'replies')}"
            )
        if difference := find_difference(self._list_known(turn), messages):
            raise ModelError(
                f"turn {turn + 1} is not as it was recorded in `{self.name}`: {difference}"
            )
        reply = self._exchanges[turn].reply
        return msgspec.structs.replace(reply, usage=Usage(), usd=None, retries=0)

    def _list_known(self, turn: int) -> list[Message]:
        """The history that the reply of this turn answered."""
        known: list[Message] = []
        for exchange in self._exchanges[: turn + 1]:
            known += exchange.sent
            reply = exchange.reply
            known.append(
                Message(role=Role.ASSISTANT, content=reply.text, tool_calls=reply.tool_calls)
            )
        return known[:-1]


def find_difference(known: Sequence[Message], now: Sequence[Message]) -> str:
    """Where two histories part; empty where they don't."""
    for number, (old, new) in enumerate(zip(known, now, strict=False), start=1):
        if old == new:
            continue
        if old.role is not new.role:
            return f"message {number} was {old.role.value} and is {new.role.value}"
        if old.content != new.content:
            return f"message {number} ({new.role.value}), {_find_line(old.content, new.content)}"
        return f"message {number} ({new.role.value}) has other tool calls"
    if len(known) != len(now):
        return f"it was sent {count_of(len(known), 'message')} and is sent {len(now)}"
    return ""


def read_recording(path: Path) -> tuple[Exchange, ...]:
    """The exchanges of a trajectory, or of the run in a folder.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    file = path / TRAJECTORY if path.is_dir() else path
    try:
        lines = file.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise UsageError(
            f"cannot read the recording `{file}`: {error.strerror}", hint=HINT
        ) from error
    found: list[Exchange] = []
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            continue
        try:
            event: Any = msgspec.json.decode(line)
            if event["kind"] == "turn":
                found.append(msgspec.convert(event, Exchange))
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, KeyError) as error:
            raise UsageError(f"{file}:{number}: no line of a trajectory", hint=HINT) from error
    if not found:
        raise UsageError(f"the recording `{file}` holds no reply", hint=HINT)
    return tuple(found)


def find_seed(name: str) -> int | None:
    """The root seed of the run that `recorded/RUN` names; None for other models and bare files."""
    seed = read_config(name).get("seed")
    return seed if isinstance(seed, int) else None


def find_run(name: str) -> Path | None:
    """The folder of the run that `recorded/RUN` names; None for other models."""
    kind, _, rest = name.partition("/")
    if kind != RECORDED:
        return None
    path = Path(rest)
    return path if path.is_dir() else path.parent


def read_config(name: str) -> dict[str, Any]:
    """What the run that `recorded/RUN` names was asked to do; empty where that is not known."""
    run = find_run(name)
    try:
        found: Any = None if run is None else msgspec.json.decode((run / CONFIG).read_bytes())
    except (OSError, msgspec.MsgspecError):
        found = None
    return found if isinstance(found, dict) else {}


def _find_line(old: str, new: str) -> str:
    before, after = old.splitlines(), new.splitlines()
    for number, (left, right) in enumerate(zip(before, after, strict=False), start=1):
        if left != right:
            pairs = enumerate(zip(left, right, strict=False))
            at = next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))
            was, now = (_cut_around(line, at) for line in (left, right))
            return f"line {number}, column {at + 1}: `{was}` was recorded, now `{now}`"
    return f"recorded were {count_of(len(before), 'line')}, now there are {len(after)}"


def _cut_around(line: str, at: int) -> str:
    """What is around a place of a line: both sides of a difference, not their common start."""
    start = max(0, at - SHOWN_MAX // 2)
    end = at + SHOWN_MAX // 2
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
