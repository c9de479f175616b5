"""What of another model's episode is worth learning.

Law: a right episode counts whole if it has no malformed call, no call twice and no empty turn; of a
failed one, only turns whose kernel came further than all before, and nothing after the last of
them. A turn that is not better than what was there before is context, never learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from nki_agent.agent.tools import LADDER
from nki_agent.agent.trajectory import ToolRun
from nki_agent.corpus.chat import ChatCall, ChatMessage, Draft, Kind
from nki_agent.corpus.chat_lint import find_fault
from nki_agent.corpus.episodes import Told
from nki_agent.llm.protocol import Role
from nki_agent.verify.verdict import Stage

COMPILE: Final = "compile_kernel"
JUDGES: Final = (COMPILE, "verify_kernel", "verify_many")


def choose_draft(told: Told, *, author: str, number: int) -> tuple[Draft | None, str]:
    """The row of an episode; else why there is none."""
    bad_turn, why = find_bad_turn(told)
    climbs = list_climbs(told.runs)
    if told.episode.is_solved:
        if bad_turn is not None:
            return None, why
        return _make(told, Kind.SAMPLED, author=author, number=number, last=None), ""
    last = max((turn for turn in climbs if bad_turn is None or turn < bad_turn), default=None)
    if last is None:
        return None, why or "no step comes further"
    return _make(told, Kind.CLIMB, author=author, number=number, last=last), ""


def list_climbs(runs: Sequence[ToolRun]) -> list[int]:
    """Turns whose kernel came further than all before it; the first kernel only if it is right."""
    best: int | None = None
    found: list[int] = []
    for run in runs:
        if run.name not in JUDGES:
            continue
        rank = _rank(run)
        is_first = best is None
        if rank is None or (best is not None and rank <= best):
            continue
        best = rank
        if (not is_first or rank == LADDER.index(Stage.RIGHT)) and run.turn not in found:
            found.append(run.turn)
    return found


def find_bad_turn(told: Told) -> tuple[int | None, str]:
    """The first turn that nobody should learn from, and why."""
    seen: set[bytes] = set()
    for turn in told.turns:
        reply = turn.reply
        if not reply.tool_calls and not reply.text.strip():
            return turn.turn, "an empty turn"
        for call, found in zip(reply.tool_calls, _calls(told, turn.turn), strict=False):
            if call.fault or find_fault(found):
                return turn.turn, "a malformed call"
            key = msgspec.json.encode([call.name, call.arguments])
            if key in seen and (call.arguments.get("source") or call.arguments.get("query")):
                return turn.turn, "the same call twice"
            seen.add(key)
    return None, ""


def _calls(told: Told, turn: int) -> Sequence[ChatCall]:
    """The calls of a turn, in the form of the row."""
    said = [m for m in told.messages if m.role is Role.ASSISTANT]
    return said[turn - 1].tool_calls if turn <= len(said) else ()


def _rank(run: ToolRun) -> int | None:
    """How far the kernel came; None where there was none."""
    if run.stage is not None:
        return LADDER.index(run.stage)
    is_compiled = run.name == COMPILE and run.result.startswith("It compiles")
    return LADDER.index(Stage.WRONG) if is_compiled else None


def _make(told: Told, kind: Kind, *, author: str, number: int, last: int | None) -> Draft:
    """The row up to a turn, or whole."""
    messages: list[ChatMessage] = []
    trained: list[bool] = []
    climbs, judged = set(list_climbs(told.runs)), {r.turn for r in told.runs if r.name in JUDGES}
    turn = 0
    for message in told.messages:
        is_said = message.role is Role.ASSISTANT
        turn += is_said
        messages.append(message)
        is_worth = turn in climbs or (kind is Kind.SAMPLED and turn not in judged)
        trained.append(is_said and is_worth)
        if turn == last and is_said:
            break
    kernel = told.episode.kernel if kind is Kind.SAMPLED else None
    return Draft(
        kind=kind,
        number=number,
        author=author,
        messages=tuple(messages),
        tools=told.tools,
        trained=tuple(trained),
        prompt_hash=told.prompt_hash,
        kernel=kernel or "",
        stages=told.stages,
    )
