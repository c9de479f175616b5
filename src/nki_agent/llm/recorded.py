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
MISREAD = (TypeError, KeyError, RecursionError)
"""What a line gives that is JSON and no event."""
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
        return f"message {number} ({new.role.value}) {_find_call(old, new)}"
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
            exchange = msgspec.convert(event, Exchange) if event["kind"] == "turn" else None
        except (msgspec.MsgspecError, UnicodeDecodeError, *MISREAD) as error:
            raise UsageError(f"{file}:{number}: no line of a trajectory", hint=HINT) from error
        if exchange is None:
            continue
        if exchange.turn != len(found) + 1:
            raise UsageError(
                f"{file}:{number}: the recording was changed: here is turn {exchange.turn}, and"
                f" turn {len(found) + 1} was to come",
                hint="a recording is said again only as it was made",
            )
        found.append(exchange)
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


def _find_call(old: Message, new: Message) -> str:
    """Where the calls of two messages part, or whose answer they are."""
    if old.tool_call_id != new.tool_call_id:
        return f"answers call `{new.tool_call_id}`, recorded was `{old.tool_call_id}`"
    if len(old.tool_calls) != len(new.tool_calls):
        return f"had {count_of(len(old.tool_calls), 'call')} and has {len(new.tool_calls)}"
    pairs = enumerate(zip(old.tool_calls, new.tool_calls, strict=True), start=1)
    place, (was, now) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
    if was.name != now.name:
        return f"call {place} was of `{was.name}` and is of `{now.name}`"
    where = f"call {place} of `{now.name}`"
    for name in dict.fromkeys((*was.arguments, *now.arguments)):
        left, right = was.arguments.get(name), now.arguments.get(name)
        if isinstance(left, str) and isinstance(right, str) and left != right:
            return f"{where}, `{name}`, {_find_line(left, right)}"
        if left != right:
            return f"{where}, `{name}`: {_cut(left)} was recorded, now {_cut(right)}"
    return f"{where} has another id or fault"


def _cut(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


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
