"""The built-in author: a Model of the agent loop that writes by rules.

Law: it works only through the tools, like any model: compile, verify, profile, submit. It reads
answers as a model would, and what it has done so far from the history alone. What it cannot write,
or cannot repair within its few ways, it says and stops; it never hands in a kernel that was judged
wrong. With a budget it goes on to search for a faster kernel, and hands in the fastest right one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nki_agent.base.clock import Clock, SystemClock
from nki_agent.builtin.capture import Captured, capture_task
from nki_agent.builtin.choices import Choices
from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.search import (
    NO_BUDGET,
    Course,
    Result,
    Search,
    SearchBudget,
    describe_change,
    describe_course,
)
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
from nki_agent.task.declaration import PERF
from nki_agent.task.task import Task

COMPILE, VERIFY, PROFILE, SUBMIT = "compile_kernel", "verify_kernel", "profile_kernel", "submit"
REPAIRS = (
    Choices(),
    Choices(col_block=1024, sbuf_share=0.6),
    Choices(col_block=512, sbuf_share=0.4),
    Choices(col_block=256, sbuf_share=0.25),
)
"""Tilings from the widest down: each repair of a full SBUF takes the next."""
ROUNDINGS = 2
"""Ways to round: everything, and everything but results of functions."""
FULL_MEMORY = ("NK205", "NK206")
NS_PER_S = 1e9
_STAGE = re.compile(r"^stage: (\w+)", re.MULTILINE)
_FAULT = re.compile(r"\bNK\d{3}\b.*")
_CLOSE = re.compile(r"^close: ", re.MULTILINE)
_LATENCY = re.compile(r"^latency +([\d.]+) µs", re.MULTILINE)
_LIMIT = re.compile(r"^limited by +(.*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Step:
    """A tool that was called, for which kernel, and what it answered."""

    tool: str
    source: str
    answer: str

    @property
    def stage(self) -> str | None:
        """The stage that the answer names; None if the kernel may run."""
        found = _STAGE.search(self.answer)
        return found.group(1) if found else None

    @property
    def is_full(self) -> bool:
        """Whether the kernel needs more memory than there is."""
        return any(code in self.answer for code in FULL_MEMORY)

    @property
    def is_close(self) -> bool:
        """Whether values are right by little."""
        return _CLOSE.search(self.answer) is not None

    @property
    def fault(self) -> str:
        """The first fault of the answer."""
        found = _FAULT.search(self.answer)
        return found.group(0) if found else self.answer.strip().splitlines()[0]


class BuiltinAuthor:
    """Writes the kernel of one task for one target."""

    def __init__(
        self,
        task: Task,
        *,
        target: Target,
        budget: SearchBudget = NO_BUDGET,
        seed: int = 0,
        clock: Clock | None = None,
    ) -> None:
        """Nothing is written before the first turn. `seed` orders what a search tries."""
        self._task = task
        self._target = target
        self._budget = budget
        self._seed = seed
        self._clock = clock or SystemClock()
        self._start_ns: int | None = None
        self._written: dict[Choices, str | None] = {}
        self._captured: Captured | None = None

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
        if self._start_ns is None:
            self._start_ns = self._clock.monotonic_ns()
        available = {tool.name for tool in tools}
        steps = list(_read_steps(messages))
        opening = _opening(steps)
        first = await self._settle(_choices_of(opening, is_checked=VERIFY in available))
        if not steps:
            return await self._write(first, available)
        last = steps[-1]
        if len(opening) == len(steps) and await self._has_failed(steps, available):
            return await self._repair(steps, available)
        match last.tool:
            case "compile_kernel" if VERIFY in available:
                return _call(VERIFY, len(steps), "It compiles; now its values.")
            case "verify_kernel" if PROFILE in available and not _was_profiled(steps):
                text = "The values are right; now where the time goes."
                return _call(PROFILE, len(steps), text, shapes=self._shapes)
            case _ if self._budget.is_empty or PROFILE not in available:
                return _call(SUBMIT, len(steps), "Done.")
            case _:
                return await asyncio.to_thread(self._optimize, steps, first)

    @property
    def _shapes(self) -> str | None:
        """Where it looks for the time: a search is for the shapes that count."""
        return None if self._budget.is_empty else PERF

    # -- the first kernel -------------------------------------------------------------------------
    async def _write(self, choices: Choices, available: set[str], number: int = 0) -> Reply:
        try:
            source = await asyncio.to_thread(self._write_anew, choices)
        except UnsupportedError as error:
            return _give_up(str(error))
        if not available:
            return Reply(text=f"The whole kernel:\n\n```python\n{source}```\n")
        text = _AGAIN if number else "The kernel, planned from the reference's operators."
        return _call(_first_tool(available), number, text, source=source)

    def _write_anew(self, choices: Choices) -> str:
        if self._captured is None:
            self._captured = capture_task(self._task)
        source = write_kernel(self._task, self._target, choices=choices, captured=self._captured)
        self._written[choices] = source
        return source

    async def _settle(self, choices: Choices) -> Choices:
        """The same, without rounding where it makes no other kernel, or one that has failed."""
        plain = choices.rounding(allowed=False)
        if not choices.rounds:
            return choices
        same = [plain]
        if choices.long_functions:
            same.append(choices.rounding(allowed=True))
        rounded = await asyncio.to_thread(self._try_to_write, choices)
        for other in same:
            if rounded == await asyncio.to_thread(self._try_to_write, other):
                return plain
        return choices

    async def _has_failed(self, steps: Sequence[_Step], available: set[str]) -> bool:
        """Whether the last answer asks for another kernel; right by a hair does, if it rounds."""
        last = steps[-1]
        written = await self._settle(_choices_of(steps[:-1], is_checked=VERIFY in available))
        return last.stage not in (None, "right") or (last.is_close and written.rounds)

    async def _repair(self, steps: Sequence[_Step], available: set[str]) -> Reply:
        """The next kernel, if what failed leads to another one."""
        last = steps[-1]
        choices = await self._settle(_choices_of(steps, is_checked=VERIFY in available))
        before = await self._settle(_choices_of(steps[:-1], is_checked=VERIFY in available))
        is_new = choices != before and _count_full(steps) < len(REPAIRS)
        if is_new:
            return await self._write(choices, available, len(steps))
        written = sum(step.tool == _first_tool(available) for step in steps)
        tried = f" after {written} tilings" if written > 1 else ""
        return _give_up(
            f"the built-in author's kernel is {last.stage}{tried}, and it knows no repair:"
            f" {last.fault}"
        )

    # -- faster ones ------------------------------------------------------------------------------
    def _optimize(self, steps: Sequence[_Step], first: Choices) -> Reply:
        results = _read_results(steps)
        drafts = self._budget.num_drafts
        search = Search(self._try_to_write, first=first, seed=self._seed, drafts=drafts)
        course = search.follow(results)
        if course.open is None or self._is_over():
            return self._submit(steps, course)
        draft, number = course.open, len(course.tried) - 1
        if draft.result is None:
            text = f"Draft {number}: {describe_change(draft.change)}."
            return _call(PROFILE, len(steps), text, source=draft.source, shapes=PERF)
        before = course.best.result
        assert before is not None
        text = (
            f"Draft {number} is faster: {before.latency_us:.1f} →"
            f" {draft.result.latency_us:.1f} µs; now its values."
        )
        return _call(VERIFY, len(steps), text, source=draft.source)

    def _try_to_write(self, choices: Choices) -> str | None:
        if choices not in self._written:
            try:
                self._write_anew(choices)
            except UnsupportedError:
                self._written[choices] = None
        return self._written[choices]

    def _is_over(self) -> bool:
        assert self._start_ns is not None
        spent_s = (self._clock.monotonic_ns() - self._start_ns) / NS_PER_S
        return self._budget.seconds is not None and spent_s >= self._budget.seconds

    @staticmethod
    def _submit(steps: Sequence[_Step], course: Course) -> Reply:
        text = describe_course(course)
        return _call(SUBMIT, len(steps), text, source=course.best.source)


def _first_tool(available: set[str]) -> str:
    """Where a new kernel goes: what says most of it for the least."""
    return next((tool for tool in (COMPILE, VERIFY) if tool in available), SUBMIT)


_AGAIN = "The same plan, mended where the answer says so."


def _opening(steps: Sequence[_Step]) -> Sequence[_Step]:
    """What comes before the first look at the time: the way to a kernel that is right."""
    for number, step in enumerate(steps):
        if step.tool == PROFILE:
            return steps[:number]
    return steps


def _count_full(steps: Sequence[_Step]) -> int:
    return sum(step.is_full for step in steps)


def _choices_of(steps: Sequence[_Step], *, is_checked: bool) -> Choices:
    """The choices of the first right kernel, or of the next one: what failed is left out.

    Values are rounded as the reference rounds them only where verdicts say that they may be.
    """
    full = min(_count_full(steps), len(REPAIRS) - 1)
    failures = sum(
        step.is_close or (step.stage not in (None, "right") and not step.is_full) for step in steps
    )
    return REPAIRS[full].rounding(
        allowed=is_checked and failures < ROUNDINGS, long_functions=failures > 0
    )


def _was_profiled(steps: Sequence[_Step]) -> bool:
    return any(step.tool == PROFILE for step in steps)


def _read_steps(messages: Sequence[Message]) -> list[_Step]:
    calls: dict[str, tuple[str, str]] = {}
    steps = []
    source = ""
    for message in messages:
        match message.role:
            case Role.ASSISTANT:
                for call in message.tool_calls:
                    source = call.arguments.get("source", source)
                    calls[call.id] = (call.name, source)
            case Role.TOOL:
                assert message.tool_call_id is not None
                steps.append(_Step(*calls[message.tool_call_id], message.content))
            case Role.SYSTEM | Role.USER:
                continue
    return steps


def _read_results(steps: Sequence[_Step]) -> dict[str, Result]:
    """What profiles and verdicts say, by kernel."""
    found: dict[str, Result] = {}
    judged: dict[str, list[bool]] = {}
    close = {step.source for step in steps if step.is_close}
    for step in steps:
        if step.tool == VERIFY:
            judged.setdefault(step.source, []).append(step.stage == "right")
    for step in steps:
        if step.tool != PROFILE:
            continue
        latency, limit = _LATENCY.search(step.answer), _LIMIT.search(step.answer)
        found[step.source] = Result(
            latency_us=float(latency.group(1)) if latency else None,
            limit=limit.group(1) if limit else step.fault,
            verdicts=tuple(judged.get(step.source, ())),
            is_close=step.source in close,
        )
    return found


def _call(tool: str, number: int, text: str, **arguments: object) -> Reply:
    given: Json = {name: value for name, value in arguments.items() if value is not None}
    call = ToolCall(id=f"{tool}-{number + 1}", name=tool, arguments=given)
    return Reply(text=text, tool_calls=(call,), usage=Usage(), stop=StopReason.TOOL_CALLS)


def _give_up(text: str) -> Reply:
    return Reply(text=text, usage=Usage(), stop=StopReason.REFUSAL)
