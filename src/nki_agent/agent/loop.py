"""One episode: ask the model, do what it says, until a kernel is handed in or a limit is reached.

Law: the history is linear and only grows. A single shot is the same loop with one turn and no
tools. What the model does wrong ends the episode with a reason; our own or the machine's failure is
recorded and travels up.
"""

from __future__ import annotations

import asyncio
import re

from nki_agent.agent.episode import End, Episode, Limits, Mode
from nki_agent.agent.past import STOPPED, find_over
from nki_agent.agent.prompt import Prompt
from nki_agent.agent.tools import Answer, Toolbox
from nki_agent.agent.trajectory import Finished, ToolRun, Trajectory, Turn
from nki_agent.base.clock import Clock
from nki_agent.base.counting import count_of
from nki_agent.llm.keys import hide_secrets
from nki_agent.llm.prices import add_usd
from nki_agent.llm.protocol import (
    Message,
    Model,
    ModelAwayError,
    ModelError,
    Reply,
    Role,
    RunBudgetError,
    StopReason,
    ToolCall,
    Usage,
)
from nki_agent.verify.verdict import Stage, Verdict

_BLOCK = re.compile(r"^```(?:python|py)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
NS_PER_MS = 1e6
NS_PER_S = 1e9
LAST_TURNS = 2
"""From so many turns before the end, answers say how many are left."""
NUDGE = "Your reply has neither a tool call nor a kernel. Send the whole kernel "
IN_A_BLOCK = "in one fenced Python block."
CUT = (
    "Your reply was cut off at its limit of {limit} tokens, before a kernel or a tool call was"
    " whole. Write less text and send the whole kernel."
)
ACCEPTED = "The kernel is right."


async def solve(
    prompt: Prompt,
    model: Model,
    tools: Toolbox,
    *,
    limits: Limits,
    clock: Clock,
    trajectory: Trajectory,
) -> Episode:
    """Let a model write a kernel; the best one is judged at the end, on a seed of its own.

    An episode that was stopped goes on after the past of its trajectory.
    """
    talk = _Talk(prompt, model, tools, limits=limits, clock=clock, trajectory=trajectory)
    try:
        end, message = await talk.run()
        kernel = tools.best
        verdict = None
        if kernel is not None:
            trajectory.announce("last judgement", turn=talk.turn)
            verdict = await tools.judge(kernel, purpose="final")
            is_open = tools.seeks_speed and end in STOPPED
            end, message = _settle(end, message, verdict, is_open=is_open)
    except asyncio.CancelledError:
        talk.finish(End.INTERRUPTED, "stopped from outside", None)
        raise
    except BaseException as error:
        talk.finish(End.FAILED, hide_secrets(f"{type(error).__name__}: {error}"), None)
        raise
    return talk.finish(end, message, verdict)


def find_kernel(text: str) -> str | None:
    """The last fenced Python block of a text."""
    blocks: list[str] = _BLOCK.findall(text)
    return blocks[-1] if blocks else None


class _Talk:
    """The history of one episode while it grows."""

    def __init__(
        self,
        prompt: Prompt,
        model: Model,
        tools: Toolbox,
        *,
        limits: Limits,
        clock: Clock,
        trajectory: Trajectory,
    ) -> None:
        self.turn = 0
        self._mode = prompt.mode
        self._model = model
        self._tools = tools
        self._limits = limits
        self._clock = clock
        self._trajectory = trajectory
        self._history = [
            Message(role=Role.SYSTEM, content=prompt.system),
            Message(role=Role.USER, content=prompt.user),
        ]
        self._num_sent = 0
        self._usage = Usage()
        self._usd: float | None = 0.0
        self._is_live = False
        self._silent = 0
        self._start_ns = clock.monotonic_ns()

    async def run(self) -> tuple[End, str]:
        """Turn after turn; why it stopped. A kernel that was handed in is wrong until judged."""
        while self.turn < self._limits.turns:
            self.turn += 1
            try:
                if (reply := self._find_reply()) is None:
                    if stop := self._find_over() or self._find_spent():
                        return stop
                    reply = await self._ask()
            except RunBudgetError as error:
                self.turn -= 1
                return End.RUN_BUDGET, str(error)
            except ModelAwayError as error:
                return End.MODEL_AWAY, str(error)
            except ModelError as error:
                return End.MODEL_ERROR, str(error)
            except TimeoutError:
                return End.WALL_TIME, self._over_time()
            if reply.stop is StopReason.REFUSAL:
                return End.GAVE_UP, reply.text.strip() or "the model refuses"
            await self._act(reply)
            if stop := self._find_stop():
                return stop
        return End.TURNS, f"no kernel was submitted in {self._limits.turns} turns"

    def finish(self, end: End, message: str, verdict: Verdict | None) -> Episode:
        """Write the last line and sum up."""
        wall_ms = (self._clock.monotonic_ns() - self._start_ns) / NS_PER_MS
        if find_over(self._trajectory.past) is None:
            self._trajectory.add(
                Finished(
                    at=self._trajectory.now(),
                    end=end,
                    message=message,
                    turns=self.turn,
                    usage=self._usage,
                    stage=None if verdict is None else verdict.stage,
                    wall_ms=wall_ms,
                    usd=self._usd,
                )
            )
        return Episode(
            end=end,
            message=message,
            turns=self.turn,
            usage=self._usage,
            wall_ms=wall_ms,
            kernel=self._tools.best,
            verdict=verdict,
            usd=self._usd,
        )

    def _find_reply(self) -> Reply | None:
        """The reply of a turn that an earlier process has paid, with the history it answered."""
        turn = self._trajectory.past.find_turn(self.turn)
        if turn is None:
            if not self._is_live:
                spent_ns = int(self._trajectory.past.spent_ms * NS_PER_MS)
                self._start_ns = self._clock.monotonic_ns() - spent_ns
            self._is_live = True
            return None
        self._history[self._num_sent :] = turn.sent
        self._note(turn.reply)
        return turn.reply

    def _find_over(self) -> tuple[End, str] | None:
        """How the episode ended in an earlier process, where it did without a further reply."""
        over = find_over(self._trajectory.past)
        if over is None:
            return None
        self.turn = over.turns
        return over.end, over.message

    def _note(self, reply: Reply) -> None:
        """Count a reply and put it into the history."""
        self._usage += reply.usage
        self._usd = add_usd(self._usd, reply.usd)
        self._history.append(
            Message(role=Role.ASSISTANT, content=reply.text, tool_calls=reply.tool_calls)
        )
        self._num_sent = len(self._history)

    async def _ask(self) -> Reply:
        """One model call, within the time that is left."""
        self._trajectory.announce(f"asking {self._model.name}", turn=self.turn)
        start_ns = self._clock.monotonic_ns()
        async with asyncio.timeout(self._seconds_left()):
            reply = await self._model.reply(
                tuple(self._history),
                tools=self._tools.specs if self._mode is Mode.LOOP else (),
                limits=self._limits.reply,
            )
        # Before anything else: what is paid must not be lost.
        self._trajectory.add(
            Turn(
                turn=self.turn,
                at=self._trajectory.now(),
                sent=tuple(self._history[self._num_sent :]),
                reply=reply,
                model_ms=(self._clock.monotonic_ns() - start_ns) / NS_PER_MS,
            )
        )
        self._note(reply)
        return reply

    async def _act(self, reply: Reply) -> None:
        """Carry a reply out and put the answers into the history."""
        if self._mode is Mode.SINGLE_SHOT:
            self._tools.submitted = find_kernel(reply.text)
        elif reply.tool_calls:
            self._silent = 0
            await self._call_tools(reply)
        elif reply.stop is StopReason.LENGTH:
            self._silent += 1
            text = CUT.format(limit=self._limits.reply.output_tokens)
            self._history.append(Message(role=Role.USER, content=text + self._remaining()))
        elif (source := find_kernel(reply.text)) is not None:
            self._silent = 0
            await self._verify_text(source)
        else:
            self._silent += 1
            self._history.append(Message(role=Role.USER, content=self._nudge()))

    async def _call_tools(self, reply: Reply) -> None:
        for place, call in enumerate(reply.tool_calls, start=1):
            self._trajectory.announce(call.name, turn=self.turn)
            result = await self._call_tool(call, place)
            text = result + (self._remaining() if place == len(reply.tool_calls) else "")
            self._history.append(Message(role=Role.TOOL, content=text, tool_call_id=call.id))
            if self._tools.submitted is not None:
                return

    async def _call_tool(self, call: ToolCall, place: int) -> str:
        """What one call answers; what an earlier process was told stays what the model sees."""
        start_ns = self._clock.monotonic_ns()
        answer = Answer(text=call.fault) if call.fault else await self._tools.call(call)
        if (run := self._trajectory.past.find_run(self.turn, place)) is not None:
            return run.result
        self._trajectory.add(
            ToolRun(
                turn=self.turn,
                call_id=call.id,
                name=call.name,
                result=answer.text,
                stage=answer.stage,
                wall_ms=(self._clock.monotonic_ns() - start_ns) / NS_PER_MS,
            )
        )
        return answer.text

    async def _verify_text(self, source: str) -> None:
        """A kernel in a text counts as sent to the tool that judges best; a right one is taken."""
        self._trajectory.announce("verify_kernel", turn=self.turn)
        answer = await self._tools.take_text(source)
        self._history.append(Message(role=Role.USER, content=answer.text + self._remaining()))

    def _find_stop(self) -> tuple[End, str] | None:
        if self._tools.submitted is not None:
            return End.SUBMITTED_WRONG, ""
        if self._mode is Mode.SINGLE_SHOT:
            return End.NO_KERNEL, "the reply holds no fenced Python block"
        if self._silent >= self._limits.silent_turns:
            return (
                End.NO_KERNEL,
                f"{count_of(self._silent, 'reply', 'replies')} without a kernel or a tool call",
            )
        if self._is_live and self._seconds_left() <= 0:
            return End.WALL_TIME, self._over_time()
        return None

    def _find_spent(self) -> tuple[End, str] | None:
        """Whether the task's tokens or dollars are used up, before the next reply is paid."""
        tokens, limits = self._usage.total_tokens, self._limits
        end: tuple[End, str] | None = None
        if tokens >= limits.total_tokens:
            end = End.TOKENS, f"{tokens} tokens are used; the limit is {limits.total_tokens}"
        elif limits.usd is not None and (self._usd or 0.0) >= limits.usd:
            end = End.BUDGET, f"${self._usd or 0.0:.4f} are spent; the limit is ${limits.usd:g}"
        if end is not None:
            self.turn -= 1
        return end

    def _seconds_left(self) -> float:
        spent_s = (self._clock.monotonic_ns() - self._start_ns) / NS_PER_S
        return self._limits.wall_s - spent_s

    def _over_time(self) -> str:
        return f"the limit of {self._limits.wall_s:g} s is reached"

    def _nudge(self) -> str:
        specs = self._tools.specs
        how = f"with `{specs[0].name}`." if specs else IN_A_BLOCK
        return NUDGE + how + self._remaining()

    def _remaining(self) -> str:
        left = self._limits.turns - self.turn
        if left > LAST_TURNS or left < 1:
            return ""
        return f"\n\nTurns left: {left}. Submit your best kernel in time."


def _settle(end: End, message: str, verdict: Verdict, *, is_open: bool) -> tuple[End, str]:
    """What the last judgement makes of the reason for stopping.

    An open search for speed goes on from a right kernel.
    """
    if verdict.stage is Stage.RIGHT and is_open:
        return end, message
    if verdict.stage is Stage.RIGHT:
        return End.SOLVED, ACCEPTED
    return end, message or f"the submitted kernel is judged {verdict.stage.value}"
