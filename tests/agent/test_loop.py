"""How episodes go and how they end, with a scripted model and the real judge."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from nki_agent.agent.episode import End, Episode, Limits, Mode
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.loop import find_kernel, solve
from nki_agent.agent.prompt import make_prompt
from nki_agent.agent.tools import Toolbox
from nki_agent.agent.trajectory import Event, Finished, Started, ToolRun, Trajectory, Turn
from nki_agent.agent.trajectory import read_trajectory as read
from nki_agent.base.clock import FakeClock
from nki_agent.base.errors import MachineError
from nki_agent.chip.spec import Target
from nki_agent.llm.protocol import (
    Message,
    Model,
    Reply,
    Role,
    StopReason,
    TokenLimits,
    ToolSpec,
    Usage,
)
from nki_agent.llm.scripted import ScriptedCall, ScriptedModel, ScriptedReply
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.verdict import Stage
from tests.agent.tiny import REFUSED, RIGHT, WRONG

SEED = 7
SECOND_NS = 1_000_000_000


def call(name: str, **arguments: str) -> ScriptedReply:
    return ScriptedReply(tool_calls=(ScriptedCall(name=name, arguments=arguments),))


def fence(source: str) -> str:
    return f"Here it is:\n\n```python\n{source}```\n"


class Listening(ScriptedModel):
    """A scripted model that keeps what it was told."""

    def __init__(self, replies: Sequence[str | ScriptedReply]) -> None:
        super().__init__(replies)
        self.heard: list[tuple[Message, ...]] = []
        self.offered: list[tuple[str, ...]] = []

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        self.heard.append(tuple(messages))
        self.offered.append(tuple(tool.name for tool in tools))
        return await super().reply(messages, tools=tools, limits=limits)


class Silent:
    """A model that never answers."""

    name = "silent"

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        del messages, tools, limits
        await asyncio.Event().wait()
        raise AssertionError


class Broken:
    """A model whose machine fails."""

    name = "broken"

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        del messages, tools, limits
        raise MachineError("the disk is full")


class Lab:
    """What every episode of this file shares, and where its trajectory goes."""

    def __init__(self, task: Task, judge: Judge, path: Path) -> None:
        self.task, self.judge, self.path = task, judge, path
        self.tools = Toolbox(OneJudge(judge, task), target=Target.TRN2, root_seed=SEED)

    async def start(
        self,
        model: Model,
        *,
        mode: Mode = Mode.LOOP,
        limits: Limits | None = None,
        clock: FakeClock | None = None,
    ) -> Episode:
        clock, limits = clock or FakeClock(), limits or Limits()
        prompt = make_prompt(self.task, target=Target.TRN2, mode=mode, limits=limits)
        return await solve(
            prompt,
            model,
            self.tools,
            limits=limits,
            clock=clock,
            trajectory=Trajectory(self.path, clock=clock),
        )

    def run(
        self,
        model: Model,
        *,
        mode: Mode = Mode.LOOP,
        limits: Limits | None = None,
        clock: FakeClock | None = None,
    ) -> Episode:
        return asyncio.run(self.start(model, mode=mode, limits=limits, clock=clock))

    def say(self, *replies: str | ScriptedReply, mode: Mode = Mode.LOOP) -> Episode:
        return self.run(ScriptedModel(replies), mode=mode)

    @property
    def events(self) -> tuple[Event, ...]:
        return read(self.path)

    @property
    def results(self) -> list[ToolRun]:
        return [event for event in self.events if isinstance(event, ToolRun)]


@pytest.fixture
def lab(task: Task, judge: Judge, tmp_path: Path) -> Lab:
    return Lab(task, judge, tmp_path / "trajectory.jsonl")


def test_right_kernel_that_is_submitted_solves(lab: Lab) -> None:
    episode = lab.say(call("verify_kernel", source=RIGHT), call("submit"))
    assert (episode.end, episode.turns, episode.kernel) == (End.SOLVED, 2, RIGHT)
    assert episode.verdict
    assert episode.verdict.right


def test_wrong_kernel_that_is_submitted_ends_wrong(lab: Lab) -> None:
    episode = lab.say(call("submit", source=WRONG), call("submit", source=RIGHT))
    assert (episode.end, episode.turns) == (End.SUBMITTED_WRONG, 1)
    assert episode.message == "the submitted kernel is judged wrong"


def test_repair_after_a_message_solves(lab: Lab) -> None:
    episode = lab.say(
        call("verify_kernel", source=REFUSED),
        call("verify_kernel", source=WRONG),
        call("verify_kernel", source=RIGHT),
        call("submit"),
    )
    assert episode.end is End.SOLVED
    assert [run.stage for run in lab.results] == [Stage.REFUSED, Stage.WRONG, Stage.RIGHT, None]


def test_every_judgement_has_its_own_seed(lab: Lab) -> None:
    episode = lab.say(call("verify_kernel", source=RIGHT), call("verify_kernel"), call("submit"))
    seeds = {lab_seed(lab, "verify 1"), lab_seed(lab, "verify 2"), lab_seed(lab, "final")}
    assert len(seeds) == 3
    assert episode.verdict
    assert episode.verdict.root_seed == lab_seed(lab, "final")


def lab_seed(lab: Lab, purpose: str) -> int:
    return asyncio.run(lab.tools.judge(RIGHT, purpose=purpose)).root_seed


def test_loop_stops_at_its_turns_and_judges_the_best_draft(lab: Lab) -> None:
    replies = [call("verify_kernel", source=WRONG), *[call("look_up", query="exp")] * 5]
    episode = lab.run(ScriptedModel(replies), limits=Limits(turns=3))
    assert (episode.end, episode.turns, episode.kernel) == (End.TURNS, 3, WRONG)
    assert episode.verdict
    assert episode.verdict.stage is Stage.WRONG


def test_right_draft_counts_although_it_was_not_submitted(lab: Lab) -> None:
    replies = [call("verify_kernel", source=RIGHT), call("verify_kernel", source=WRONG)]
    episode = lab.run(ScriptedModel(replies), limits=Limits(turns=2))
    assert (episode.end, episode.kernel) == (End.SOLVED, RIGHT)


def test_three_replies_without_a_kernel_end_it(lab: Lab) -> None:
    episode = lab.say("no code", "still none", "sorry", call("submit", source=RIGHT))
    assert (episode.end, episode.turns, episode.verdict) == (End.NO_KERNEL, 3, None)


def test_kernel_in_a_text_is_verified_and_a_right_one_taken(lab: Lab) -> None:
    episode = lab.say(fence(WRONG), fence(RIGHT))
    assert (episode.end, episode.turns, episode.kernel) == (End.SOLVED, 2, RIGHT)


def test_model_that_refuses_is_not_asked_again(lab: Lab) -> None:
    episode = lab.say(ScriptedReply(text="I cannot.", stop=StopReason.REFUSAL), "more")
    assert (episode.end, episode.message, episode.turns) == (End.GAVE_UP, "I cannot.", 1)


def test_used_up_script_is_a_model_error(lab: Lab) -> None:
    episode = lab.say(call("look_up", query="exp"))
    assert episode.end is End.MODEL_ERROR
    assert "ends after 1 reply" in episode.message


def test_tokens_end_it(lab: Lab) -> None:
    usage = Usage(input_tokens=60, output_tokens=50)
    replies = [ScriptedReply(text="hm", usage=usage)] * 3
    episode = lab.run(ScriptedModel(replies), limits=Limits(total_tokens=100))
    assert (episode.end, episode.turns, episode.usage) == (End.TOKENS, 1, usage)


def test_clock_ends_it(lab: Lab) -> None:
    clock = FakeClock(step_ns=40 * SECOND_NS)
    episode = lab.run(ScriptedModel(["a", "b", "c"]), limits=Limits(wall_s=100), clock=clock)
    assert episode.end is End.WALL_TIME


def test_model_that_never_answers_is_not_waited_for(lab: Lab) -> None:
    episode = lab.run(Silent(), limits=Limits(wall_s=0.05))
    assert (episode.end, episode.turns) == (End.WALL_TIME, 1)


def test_failure_of_the_machine_is_recorded_and_travels_up(lab: Lab) -> None:
    with pytest.raises(MachineError):
        lab.run(Broken())
    last = lab.events[-1]
    assert isinstance(last, Finished)
    assert (last.end, last.message) == (End.FAILED, "MachineError: the disk is full")


def test_interruption_is_recorded(lab: Lab) -> None:
    async def interrupt() -> None:
        episode = asyncio.create_task(lab.start(Silent()))
        await asyncio.sleep(0.02)
        episode.cancel()
        await episode

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupt())
    last = lab.events[-1]
    assert isinstance(last, Finished)
    assert last.end is End.INTERRUPTED


def test_single_shot_judges_the_last_block_once(lab: Lab) -> None:
    model = Listening([fence(WRONG) + "better:\n" + fence(RIGHT), "never asked"])
    episode = lab.run(model, mode=Mode.SINGLE_SHOT)
    assert (episode.end, episode.turns, episode.kernel) == (End.SOLVED, 1, RIGHT)
    assert model.offered == [()]


def test_single_shot_without_a_block_has_no_kernel(lab: Lab) -> None:
    episode = lab.say("```\nno language\n```", mode=Mode.SINGLE_SHOT)
    assert (episode.end, episode.kernel) == (End.NO_KERNEL, None)


def test_history_grows_and_is_the_trajectory(lab: Lab) -> None:
    model = Listening([call("verify_kernel", source=WRONG), "hm", call("submit", source=RIGHT)])
    lab.run(model)
    assert [len(heard) for heard in model.heard] == [2, 4, 6]
    assert model.heard[0] == model.heard[2][:2]
    told: list[Message] = []
    for event in lab.events:
        if isinstance(event, Turn):
            told += event.sent
            assert tuple(told) == model.heard[event.turn - 1]
            reply = event.reply
            told.append(
                Message(role=Role.ASSISTANT, content=reply.text, tool_calls=reply.tool_calls)
            )


def test_last_turns_are_announced(lab: Lab) -> None:
    model = Listening([call("look_up", query="exp")] * 3)
    lab.run(model, limits=Limits(turns=3))
    assert "Turns left: 2" in model.heard[1][-1].content
    assert "Turns left: 1" in model.heard[2][-1].content


def test_calls_after_submit_are_not_carried_out(lab: Lab) -> None:
    reply = ScriptedReply(
        tool_calls=(
            ScriptedCall(name="submit", arguments={"source": RIGHT}),
            ScriptedCall(name="submit", arguments={"source": WRONG}),
        )
    )
    assert lab.say(reply).kernel == RIGHT
    assert len(lab.results) == 1


def test_trajectory_has_one_end_and_no_start_of_its_own(lab: Lab) -> None:
    lab.say("a", "b", "c")
    assert isinstance(lab.events[-1], Finished)
    assert [e for e in lab.events if isinstance(e, Started)] == []


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("```python\na\n```", "a\n"),
        ("```py title=x\na\n```\n```python\nb\n```", "b\n"),
        ("```\na\n```", None),
        ("```python\nunfinished", None),
        ("", None),
    ],
)
def test_kernel_is_the_last_python_block(text: str, kernel: str | None) -> None:
    assert find_kernel(text) == kernel
