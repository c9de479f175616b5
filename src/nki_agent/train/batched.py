"""Many episodes of the agent's loop on one model in this process, drawn in one batch each turn.

Law: replies are drawn when every episode that goes on waits for one, so all are of one turn, a
batch is as large as it can be and its order does not depend on timing; an episode's tokens are kept
as they were drawn and read, never written anew from text. The loop and its tools are the agent's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from nki_agent.corpus.chat import convert_message, convert_tools
from nki_agent.llm.chat import read_calls
from nki_agent.llm.protocol import (
    Message,
    ModelError,
    Reply,
    StopReason,
    TokenLimits,
    ToolCall,
    ToolSpec,
    Usage,
)
from nki_agent.train.tokens import Template


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a model wrote after a prompt."""

    ids: list[int]
    """With its end-of-turn, unless it was cut."""
    logprobs: list[float] | None = None
    """Of each token as it was drawn; None where the drawing does not say."""


class Draw(Protocol):
    """Draws what a model writes; blocks until all is done."""

    def __call__(self, prompts: Sequence[Sequence[int]], *, turn: int) -> list[Drawn]:
        """What it writes after each prompt; `turn` counts the replies of its episode before it."""


class Batch:
    """Gathers the requests of the episodes that are alive."""

    def __init__(self, draw: Draw) -> None:
        """Replies come from `draw`."""
        self._draw = draw
        self._alive = 0
        self._turn = 0
        self._waiting: list[tuple[int, list[int], asyncio.Future[Drawn]]] = []

    def enter(self) -> None:
        """An episode begins."""
        self._alive += 1

    def leave(self) -> None:
        """An episode ends; the others may all be waiting now."""
        self._alive -= 1
        self._run_when_full()

    async def ask(self, place: int, ids: list[int]) -> Drawn:
        """What the model writes after `ids`; `place` orders the batch."""
        future: asyncio.Future[Drawn] = asyncio.get_running_loop().create_future()
        self._waiting.append((place, ids, future))
        self._run_when_full()
        return await future

    def _run_when_full(self) -> None:
        if not self._waiting or len(self._waiting) < self._alive:
            return
        waiting = sorted(self._waiting, key=lambda request: request[0])
        self._waiting = []
        drawn = self._draw([ids for _, ids, _ in waiting], turn=self._turn)
        self._turn += 1
        for (_, _, future), reply in zip(waiting, drawn, strict=True):
            # An episode that ran out of time has gone.
            if not future.done():
                future.set_result(reply)


@dataclass(slots=True)
class Record:
    """The tokens of one episode: those that it began with, and all that came after."""

    prompt_ids: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    is_own: list[int] = field(default_factory=list)
    """1 for each token that the model drew."""
    logprobs: list[float] | None = field(default_factory=list)
    repeated_calls: int = 0
    malformed_calls: int = 0
    was_cut: bool = False
    """Whether a reply reached its limit."""


class BatchedModel:
    """The model of one episode; `record` is what it read and wrote."""

    def __init__(
        self,
        batch: Batch,
        template: Template,
        *,
        place: int,
        room_tokens: int,
        name: str,
        remembered: int | None = None,
    ) -> None:
        """`room_tokens` is for all that comes after the prompt.

        Of its replies the model reads the last `remembered` again, with what was answered; all
        where it is None.
        """
        self.record = Record()
        self._batch = batch
        self._template = template
        self._place = place
        self._room = room_tokens
        self._remembered = remembered
        self._starts: list[int] = []
        """Where each reply begins, in tokens after the prompt."""
        self._name = name
        self._num_read = 0
        self._sent: set[str] = set()
        self._ends_open = False
        """Whether the last reply was cut, so that no end-of-turn closes it."""

    @property
    def name(self) -> str:
        """As records call it."""
        return self._name

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        """The next reply.

        Raises:
            ModelError: the episode's room is used up.
        """
        record = self.record
        self._read(messages, tools)
        if len(record.ids) >= self._room:
            raise ModelError(f"the episode's {self._room} tokens are used up")
        drawn = await self._batch.ask(self._place, [*record.prompt_ids, *self._read_again()])
        self._starts.append(len(record.ids))
        ids = drawn.ids[: min(self._room - len(record.ids), limits.output_tokens)]
        ends = bool(ids) and ids[-1] == self._template.tokenizer.eos_token_id
        self._write(ids, drawn.logprobs, is_own=True)
        # The reply itself goes into the history; it is in the record already.
        self._num_read = len(messages) + 1
        self._ends_open = not ends
        record.was_cut = record.was_cut or not ends
        return self._parse(ids, has_tools=bool(tools), ends=ends)

    def _read_again(self) -> list[int]:
        """The tokens after the prompt that the next reply is drawn from."""
        if self._remembered is None or len(self._starts) <= self._remembered:
            return self.record.ids
        return self.record.ids[self._starts[-self._remembered] :]

    def _read(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> None:
        record = self.record
        if not record.prompt_ids:
            chat = _write_messages(messages, start=0)
            record.prompt_ids = self._template.prompt_ids(chat, list(convert_tools(tools)) or None)
            return
        answers = _write_messages(messages, start=self._num_read)
        ids = self._template.answer_ids(answers)
        if self._ends_open:
            # What the template puts first follows an end-of-turn; a cut reply has none.
            ids = [self._template.tokenizer.eos_token_id, *ids]
        self._write(ids, None, is_own=False)

    def _write(self, ids: list[int], logprobs: list[float] | None, *, is_own: bool) -> None:
        record = self.record
        record.ids += ids
        record.is_own += [int(is_own)] * len(ids)
        if not is_own:
            logprobs = [0.0] * len(ids)
        if record.logprobs is not None:
            record.logprobs = None if logprobs is None else record.logprobs + logprobs[: len(ids)]

    def _parse(self, ids: list[int], *, has_tools: bool, ends: bool) -> Reply:
        text = self._template.tokenizer.decode(ids, skip_special_tokens=True)
        said, found = read_calls(text) if has_tools else (text, [])
        calls = tuple(self._make_call(call) for call in found)
        stop = StopReason.TOOL_CALLS if calls else StopReason.DONE
        usage = Usage(
            input_tokens=len(self.record.prompt_ids) + len(self.record.ids) - len(ids),
            output_tokens=len(ids),
        )
        return Reply(
            text=said, tool_calls=calls, usage=usage, stop=stop if ends else StopReason.LENGTH
        )

    def _make_call(self, call: dict[str, Any]) -> ToolCall:
        number = self.record.is_own.count(1)
        name, text = call["function"]["name"], call["function"]["arguments"]
        fault, arguments = "", {}
        try:
            arguments = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            fault = f"The arguments are no JSON object: {error}"
        if fault:
            self.record.malformed_calls += 1
        elif (key := f"{name} {text}") in self._sent:
            self.record.repeated_calls += 1
        else:
            self._sent.add(key)
        return ToolCall(id=f"{call['id']}_{number}", name=name, arguments=arguments, fault=fault)


def _write_messages(messages: Sequence[Message], *, start: int) -> list[dict[str, Any]]:
    """What the template reads from `start` on: the form of the rows that a model is trained on."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    written: list[dict[str, Any]] = msgspec.to_builtins(
        [convert_message(message, names) for message in messages[start:]]
    )
    return written
