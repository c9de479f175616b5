"""An episode that starts from a user's kernel: repair it, or make a right one faster.

Law: the user's kernel is part of the task's words, so the history stays linear and says all. When
speed is the goal, every verified or submitted kernel is judged at each of the task's sizes, and the
fastest right one is kept, the user's own included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from string import Template

from nki_agent.agent.ablation import ALL_TOOLS, Tool
from nki_agent.agent.answers import write_faults, write_trials
from nki_agent.agent.judging import Judging
from nki_agent.agent.library import find_library
from nki_agent.agent.prompt import Prompt
from nki_agent.agent.tools import Answer, Shelf, Toolbox
from nki_agent.base.seeds import seed_for
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.cost.summary import Summary, format_figure, format_summary
from nki_agent.llm.protocol import Json
from nki_agent.task.task import Scope
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Verdict

US_NS = 1e3


class Goal(StrEnum):
    """What is wanted of a kernel."""

    FIX = "fix"
    OPTIMIZE = "optimize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A user's kernel and what is known of it before the first turn."""

    goal: Goal
    source: str
    verdict: Verdict
    profile: Summary | None = None
    """Where a right kernel's time goes, at the size whose speed counts."""

    @property
    def scope(self) -> Scope:
        """At which of the task's sizes drafts are judged."""
        return scope_of(self.goal)


def scope_of(goal: Goal) -> Scope:
    """Speed is claimed at the perf shapes; a repair is proven at the small ones."""
    match goal:
        case Goal.FIX:
            return Scope.PROOF
        case Goal.OPTIMIZE:
            return Scope.ALL


def add_start(prompt: Prompt, start: Start) -> Prompt:
    """The same prompt with the user's kernel below the task."""
    latency = start.verdict.latency_ns
    words = Template(
        files("nki_agent.agent")
        .joinpath("outside", f"{start.goal.value}.md")
        .read_text(encoding="utf-8")
    ).substitute(
        source=start.source.strip(),
        verdict=_write_verdict(start.verdict),
        latency="" if latency is None else f"{format_figure(latency / US_NS)} µs",
        profile="" if start.profile is None else format_summary(start.profile),
    )
    return replace(prompt, user=f"{prompt.user.rstrip()}\n{words}")


class ImprovingTools(Toolbox):
    """The tools of an episode that starts from a kernel."""

    def __init__(
        self,
        judging: Judging,
        start: Start,
        *,
        target: Target,
        root_seed: int,
        tools: Sequence[Tool] = ALL_TOOLS,
        surface: Surface = Surface.NKI,
    ) -> None:
        """Keep the start as the first of the right kernels, where it is right."""
        super().__init__(
            judging,
            target=target,
            root_seed=root_seed,
            tools=tools,
            surface=surface,
            shelf=Shelf(docs=find_library()),
        )
        self._start = start
        self._latencies: dict[str, float] = {}
        self._keep(start.source, start.verdict)

    @property
    def seeks_speed(self) -> bool:
        """Whether a right kernel is not yet all that is wanted."""
        return self._start.goal is Goal.OPTIMIZE

    @property
    def best(self) -> str | None:
        """For speed the fastest right kernel; else what the model came furthest with."""
        if self._start.goal is Goal.FIX:
            return super().best
        return min(self._latencies, key=lambda source: self._latencies[source], default=None)

    async def judge(self, source: str, *, purpose: str) -> Verdict:
        """The verdict at all sizes that the goal asks for."""
        verdict = await self._judging.judge(
            Kernel.from_text(source),
            root_seed=seed_for(self._root_seed, purpose),
            scope=self._start.scope,
        )
        self._keep(source, verdict)
        return verdict

    async def _submit(self, arguments: Json) -> Answer:
        """A kernel that was never verified counts too: it may be the fastest."""
        answer = await super()._submit(arguments)
        if self.seeks_speed and self.submitted not in (None, *self._latencies):
            assert self.submitted is not None
            await self.judge(self.submitted, purpose="submit")
        return answer

    def _keep(self, source: str, verdict: Verdict) -> None:
        """The first latency of a kernel is that of all: it does not depend on the seed."""
        if verdict.right and verdict.latency_ns is not None:
            self._latencies.setdefault(source, verdict.latency_ns)


def _write_verdict(verdict: Verdict) -> str:
    lines = [f"stage: {verdict.stage.value}", *write_faults(verdict.diagnostics)]
    if verdict.failed_at is not None:
        lines.insert(1, f"It fails at other sizes: {verdict.failed_at}.")
    return "\n".join((*lines, *write_trials(verdict.trials)))
