"""Runs one episode through the agent loop, and gives back all that was said in it.

Law: the tools, the prompt and the limits are those of the agent. Without a path nothing is written
to disk and the clock stands still, so that the same model and seed give the same words.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nki_agent.agent.ablation import ALL_TOOLS, Ablation, Tool
from nki_agent.agent.episode import Episode, Limits, Mode
from nki_agent.agent.improving import ImprovingTools, Start, add_start
from nki_agent.agent.judging import Judging, OneJudge
from nki_agent.agent.loop import solve
from nki_agent.agent.past import begin_or_go_on, make_start
from nki_agent.agent.prompt import Prompt, make_prompt
from nki_agent.agent.tools import Toolbox
from nki_agent.agent.trajectory import (
    Event,
    ToolRun,
    Trajectory,
    Turn,
    Waiting,
    read_trajectory,
)
from nki_agent.base.clock import Clock, FakeClock
from nki_agent.chip.spec import Target
from nki_agent.corpus.chat import ChatMessage, convert_messages, convert_tools
from nki_agent.corpus.desk import Desk
from nki_agent.llm.protocol import Json, Message, Model, Role
from nki_agent.task.task import Task

OFFERED: Final = Ablation(tools=tuple(tool for tool in ALL_TOOLS if tool is not Tool.FIND))
TEN_TURNS: Final = Limits()
TURNS_MAX: Final = 64
"""Of the episodes that are made here: a search takes more turns than an agent is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What an episode is about."""

    task: Task
    target: Target
    root_seed: int
    mode: Mode = Mode.LOOP
    start: Start | None = None
    """A kernel that it begins with."""
    limits: Limits = TEN_TURNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An episode and its words."""

    episode: Episode
    messages: tuple[ChatMessage, ...]
    tools: tuple[Json, ...]
    prompt_hash: str
    runs: tuple[ToolRun, ...]
    """What each call of a tool gave, in order."""
    turns: tuple[Turn, ...]

    @property
    def stages(self) -> tuple[str, ...]:
        """How far each kernel came that a tool looked at."""
        return tuple(run.stage.value for run in self.runs if run.stage is not None)


def tell(setting: Setting, model: Model, desk: Desk) -> Told:
    """One episode with the judge of this process."""
    judging = OneJudge(desk.judge_for(setting.target), setting.task)
    return asyncio.run(tell_with(setting, model, judging))


async def tell_with(
    setting: Setting,
    model: Model,
    judging: Judging,
    *,
    clock: Clock | None = None,
    path: Path | None = None,
) -> Told:
    """One episode with any judge; with a `path` it is kept there, and goes on where it stopped."""
    clock = clock or FakeClock(step_ns=0)
    tools, prompt = _make_tools(setting, judging), _make_prompt(setting)
    events: list[Event] = []

    def watch(event: Event | Waiting) -> None:
        if not isinstance(event, Waiting):
            events.append(event)

    trajectory = Trajectory(path, clock=clock, watch=watch)
    if path is not None:
        started = make_start(setting.task, prompt, model=model, target=setting.target)
        begin_or_go_on(trajectory, started)
    episode = await solve(
        prompt, model, tools, limits=setting.limits, clock=clock, trajectory=trajectory
    )
    told = events if path is None else read_trajectory(path)
    turns = tuple(event for event in told if isinstance(event, Turn))
    return Told(
        episode=episode,
        messages=convert_messages(list_messages(turns)) if turns else (),
        tools=convert_tools(tools.specs) if setting.mode is Mode.LOOP else (),
        prompt_hash=prompt.hash,
        runs=tuple(event for event in told if isinstance(event, ToolRun)),
        turns=turns,
    )


def list_messages(turns: tuple[Turn, ...]) -> list[Message]:
    """The whole history: what was sent in each turn, and its reply."""
    found: list[Message] = []
    for turn in turns:
        reply = turn.reply
        found += turn.sent
        found.append(Message(role=Role.ASSISTANT, content=reply.text, tool_calls=reply.tool_calls))
    return found


def _make_tools(setting: Setting, judging: Judging) -> Toolbox:
    if setting.start is None:
        return Toolbox(judging, target=setting.target, root_seed=setting.root_seed)
    return ImprovingTools(
        judging, setting.start, target=setting.target, root_seed=setting.root_seed
    )


def _make_prompt(setting: Setting) -> Prompt:
    """As the agent's; `find_kernels` is no tool where there is no archive."""
    prompt = make_prompt(
        setting.task,
        target=setting.target,
        mode=setting.mode,
        limits=TEN_TURNS,
        ablation=OFFERED,
    )
    return prompt if setting.start is None else add_start(prompt, setting.start)
