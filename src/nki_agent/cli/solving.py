"""A run of `solve` from its config to its folder, begun or gone on with.

`fix` and `optimize` are shown and kept the same way. Law: an episode that has ended is read again
and never asked again, so of several samples only those that were stopped, or not begun, cost
anything when a run goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nki_agent import __version__
from nki_agent.agent.ablation import Ablation
from nki_agent.agent.archive import Archive, choose_archive, read_archive
from nki_agent.agent.best_of import sample_seed, sum_up_episodes
from nki_agent.agent.episode import Episode, Limits, Mode
from nki_agent.agent.folder import RunFolder
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.library import find_library
from nki_agent.agent.loop import solve as run_episode
from nki_agent.agent.past import begin_or_go_on, make_start
from nki_agent.agent.prompt import make_prompt
from nki_agent.agent.short import choose_toolbox
from nki_agent.agent.tools import Shelf
from nki_agent.agent.trajectory import Trajectory
from nki_agent.base.clock import Clock
from nki_agent.builtin.author import BuiltinAuthor
from nki_agent.builtin.search import NO_BUDGET, SearchBudget
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.cli.conversation import Conversation
from nki_agent.cli.inputs import read_task
from nki_agent.cli.progress import Progress
from nki_agent.cost.perfetto import write_trace
from nki_agent.cost.summary import Summary
from nki_agent.llm.choose import ModelSource
from nki_agent.llm.keys import hide_secrets
from nki_agent.llm.meter import Budget
from nki_agent.llm.prices import Tariff
from nki_agent.llm.protocol import Model
from nki_agent.program.records import Dialect
from nki_agent.task.task import ShapeSet, Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.speed import estimate_speed

SCHEMA = 1
"""Raised by every change that an older reader would misread."""


class SolveConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked to do, with every default filled in."""

    schema: int = SCHEMA
    version: str = __version__
    task: str
    task_source: str
    """Short hash of the task file's text."""
    target: Target
    dialect: Dialect
    model: str
    mode: Mode
    surface: Surface = Surface.NKI
    limits: Limits
    seed: int
    allow_unsandboxed: bool
    untrusted_task: bool = False
    ablation: Ablation = Ablation()
    prompts: str = ""
    """Version and hash of the prompts' words."""
    samples: int = 1
    archive: str | None = None
    """The folder whose right kernels `find_kernels` shows."""
    archive_hash: str | None = None
    """What was in it; None where nothing was."""
    archive_before: int | None = None
    """The time in ns before which its verdicts were made, for a recording; else all count."""
    tariff: Tariff = Tariff()
    budget: Budget = Budget()
    optimize: SearchBudget = NO_BUDGET
    """How far the built-in author searches for faster kernels."""
    docs: str = ""
    """Short hash of the user's documentation that `look_up` searches; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """Who is asked in a run, by which clock, and how it is shown: no part of its config."""

    models: ModelSource
    clock: Clock
    shows_all: bool = False
    """Whether whole texts are shown, in place of a line for each event."""
    num_said: int = 0
    """Replies that the model gave before the run: a script goes on after them."""

    def watch(self, *, turns: int) -> Progress:
        """What shows an episode's events while it is entered."""
        show_events = Conversation if self.shows_all else Progress
        return show_events(clock=self.clock, turns=turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run from its config to its folder."""

    config: SolveConfig
    folder: RunFolder
    task: Task
    judge: Judge
    how: Showing

    def carry_out(self) -> tuple[Episode, ...]:
        """Every sample's episode; whatever ends them, the best kernel so far is in the folder."""
        episodes: list[Episode] = []
        for number in range(self.config.samples):
            episodes.append(self._carry_out_sample(number, before=episodes))
            best = sum_up_episodes(episodes).kernel
            if best is not None:
                self.folder.kernel.write_text(best, encoding="utf-8")
        return tuple(episodes)

    def _carry_out_sample(self, number: int, *, before: Sequence[Episode]) -> Episode:
        config = self.config
        seed = sample_seed(config.seed, number)
        tools = choose_toolbox(config.ablation)(
            OneJudge(self.judge, self.task),
            target=config.target,
            root_seed=seed,
            tools=config.ablation.tools,
            shelf=Shelf(archive=self._find_archive(seed), docs=find_library()),
            surface=config.surface,
        )
        prompt = make_prompt(
            self.task,
            target=config.target,
            mode=config.mode,
            limits=config.limits,
            ablation=tools.restrict(config.ablation),
            surface=config.surface,
        )
        model = self._make_model(number, before)
        path = self.folder.sample_trajectory(number)
        with self.how.watch(turns=config.limits.turns) as progress:
            trajectory = Trajectory(path, clock=self.how.clock, watch=progress.show)
            start = make_start(self.task, prompt, model=model, target=config.target)
            begin_or_go_on(trajectory, start)
            try:
                episode = run_episode(
                    prompt,
                    model,
                    tools,
                    limits=config.limits,
                    clock=self.how.clock,
                    trajectory=trajectory,
                )
                return asyncio.run(self.how.models.drop_after(episode))
            finally:
                if tools.best is not None and not self.folder.kernel.exists():
                    self.folder.kernel.write_text(tools.best, encoding="utf-8")

    def _make_model(self, number: int, before: Sequence[Episode]) -> Model:
        """A recording's samples are beside each other; a script's replies follow each other."""
        path = self.folder.sample_trajectory(number)
        return self.how.models.make_model(
            make_builtin=lambda: BuiltinAuthor(
                self.task,
                target=self.config.target,
                budget=self.config.optimize,
                clock=self.how.clock,
            ),
            recording=None if number == 0 else Path(path.name),
            num_said=self.how.num_said + sum(episode.turns for episode in before),
        )

    def _find_archive(self, seed: int) -> Archive | None:
        if self.config.archive is None or self.config.archive_hash is None:
            return None
        kept = read_archive(Path(self.config.archive), before=self.config.archive_before)
        return choose_archive(kept, target=self.config.target.value, root_seed=seed)


def carry_out(
    path: Path, config: SolveConfig, folder: RunFolder, how: Showing
) -> tuple[tuple[Episode, ...], Summary | None]:
    """Load, run the episodes, write what came of the best."""
    task = read_task(
        path,
        untrusted=config.untrusted_task,
        allow_unsandboxed=config.allow_unsandboxed,
        asks_fitness=True,
    )
    with Judge(
        target=config.target,
        allow_unsandboxed=config.allow_unsandboxed,
        surface=config.surface,
    ) as judge:
        episodes = Run(config=config, folder=folder, task=task, judge=judge, how=how).carry_out()
        best = sum_up_episodes(episodes)
        return episodes, write_results(best, folder, judge, task.dev)


def write_results(
    episode: Episode, folder: RunFolder, judge: Judge, shapes: ShapeSet
) -> Summary | None:
    """Verdict, timeline and profile of the judged kernel; None where it cannot run."""
    if episode.verdict is None or episode.kernel is None:
        return None
    summary = None
    found = judge.compile(Kernel.from_text(episode.kernel), shapes)
    if found.stage is None and found.program is not None and found.placement is not None:
        speed = estimate_speed(found.program, found.placement, shapes, judge.target)
        write_trace(speed.timeline, found.program, folder.timeline)
        folder.write_json(folder.profile, speed.summary)
        summary = speed.summary
    # The verdict comes last: a folder that has one has everything else.
    folder.write_json(folder.verdict, episode.verdict)
    return summary


@contextlib.contextmanager
def keeping_errors(folder: RunFolder) -> Iterator[None]:
    """What stops a run is kept in its folder, and the folder is named on the way up.

    What stopped it before is forgotten when it goes on to its end.
    """
    try:
        yield
        folder.error.unlink(missing_ok=True)
    except BaseException as error:
        with contextlib.suppress(OSError):  # a full disk must not hide what came first
            text = hide_secrets(f"{type(error).__name__}: {error}\n")
            folder.error.write_text(text, encoding="utf-8", errors="backslashreplace")
        error.add_note(f"kept: {folder.path}")
        raise
