"""The built-in author: a Model of the agent loop that writes by rules.

Law: it works only through the tools, like any model: compile, verify, profile, submit. It reads
answers as a model would, and what it has done so far from the history alone. What it cannot write,
or cannot repair within its few ways, it says and stops; it never hands in a kernel that was judged
wrong.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.rows import Demand
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.llm.protocol import (
    Json,
    Message,
    Reply,
    Role,
    StopReason,
    TokenLimits,
    ToolCall,
    ToolSpec,
    Usage,
)
from nki_agent.task.task import Task

COMPILE, VERIFY, PROFILE, SUBMIT = "compile_kernel", "verify_kernel", "profile_kernel", "submit"
DEMANDS = (
    Demand(),
    Demand(col_block=1024, sbuf_share=0.6),
    Demand(col_block=512, sbuf_share=0.4),
    Demand(col_block=256, sbuf_share=0.25),
)
"""Tilings from the widest down: each repair of a full SBUF takes the next."""
FULL_MEMORY = ("NK205", "NK206")
_STAGE = re.compile(r"^stage: (\w+)", re.MULTILINE)
_FAULT = re.compile(r"\bNK\d{3}\b.*")


@dataclass(frozen=True, slots=True)
class _Step:
    """The last tool that was called and what it answered."""

    tool: str
    answer: str

    @property
    def stage(self) -> str | None:
        """The stage that the answer names; None if the kernel may run."""
        found = _STAGE.search(self.answer)
        return found.group(1) if found else None

    @property
    def fault(self) -> str:
        """The first fault of the answer."""
        found = _FAULT.search(self.answer)
        return found.group(0) if found else self.answer.strip().splitlines()[0]


class BuiltinAuthor:
    """Writes the kernel of one task for one target."""

    def __init__(self, task: Task, *, target: Target) -> None:
        """Nothing is written before the first turn."""
        self._task = task
        self._target = target

    @property
    def name(self) -> str:
        """What `--model` calls it."""
        return "builtin"

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec],
        limits: TokenLimits,
    ) -> Reply:
        """The next turn: write, then verify, profile and submit as the answers allow."""
        del limits  # It has no tokens.
        available = {tool.name for tool in tools}
        steps = list(_read_steps(messages))
        if not steps:
            return await self._write(0, available)
        last = steps[-1]
        number = sum(step.tool == _first_tool(available) for step in steps)
        if last.stage not in (None, "right"):
            return await self._repair(last, number, available)
        match last.tool:
            case "compile_kernel" if VERIFY in available:
                return _call(VERIFY, len(steps), "It compiles; now its values.")
            case "verify_kernel" if PROFILE in available:
                return _call(PROFILE, len(steps), "The values are right; now where the time goes.")
            case _:
                return _call(SUBMIT, len(steps), "Done.")

    async def _write(self, attempt: int, available: set[str]) -> Reply:
        try:
            source = await asyncio.to_thread(
                write_kernel, self._task, self._target, demand=DEMANDS[attempt]
            )
        except UnsupportedError as error:
            return _give_up(str(error))
        if not available:
            return Reply(text=f"The whole kernel:\n\n```python\n{source}```\n")
        text = "The kernel, planned from the reference's operators." if attempt == 0 else _AGAIN
        return _call(_first_tool(available), attempt, text, source=source)

    async def _repair(self, last: _Step, attempts: int, available: set[str]) -> Reply:
        is_full = any(code in last.answer for code in FULL_MEMORY)
        if is_full and attempts < len(DEMANDS):
            return await self._write(attempts, available)
        tried = f" after {attempts} tilings" if attempts > 1 else ""
        return _give_up(
            f"the built-in author's kernel is {last.stage}{tried}, and it knows no repair:"
            f" {last.fault}"
        )


def _first_tool(available: set[str]) -> str:
    """Where a new kernel goes: what says most of it for the least."""
    return next((tool for tool in (COMPILE, VERIFY) if tool in available), SUBMIT)


_AGAIN = "It needs too much memory; the same plan with smaller tiles."


def _read_steps(messages: Sequence[Message]) -> list[_Step]:
    calls: dict[str, str] = {}
    steps = []
    for message in messages:
        match message.role:
            case Role.ASSISTANT:
                calls |= {call.id: call.name for call in message.tool_calls}
            case Role.TOOL:
                assert message.tool_call_id is not None
                steps.append(_Step(calls[message.tool_call_id], message.content))
            case Role.SYSTEM | Role.USER:
                continue
    return steps


def _call(tool: str, number: int, text: str, **arguments: object) -> Reply:
    given: Json = dict(arguments)
    call = ToolCall(id=f"{tool}-{number + 1}", name=tool, arguments=given)
    return Reply(text=text, tool_calls=(call,), usage=Usage(), stop=StopReason.TOOL_CALLS)


def _give_up(text: str) -> Reply:
    return Reply(text=text, usage=Usage(), stop=StopReason.REFUSAL)
