"""`nki-agent solve TASK.py`: an episode with its run folder, then what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Annotated

import msgspec
import typer

from nki_agent import __version__
from nki_agent.agent.episode import End, Episode, Limits, Mode
from nki_agent.agent.folder import RunFolder, make_run_folder
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.library import find_library, hash_docs
from nki_agent.agent.loop import solve as run_episode
from nki_agent.agent.prompt import Prompt, make_prompt
from nki_agent.agent.tools import Toolbox
from nki_agent.agent.trajectory import Started, Trajectory
from nki_agent.base.clock import Clock, SystemClock
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.base.seeds import draw_root_seed
from nki_agent.builtin.author import BuiltinAuthor
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET, Target
from nki_agent.cli.authoring import choose_limits, require_author, require_readable
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.conversation import Conversation
from nki_agent.cli.describing import describe, require_words
from nki_agent.cli.improving import keeping_errors
from nki_agent.cli.inputs import (
    JSON_HELP,
    SURFACE_HELP,
    TARGET_HELP,
    UNSANDBOXED_HELP,
    UNTRUSTED_HELP,
    Seed,
    Turns,
    printable,
    read_target,
    read_task,
    read_text,
    require_dialect,
)
from nki_agent.cli.outcome import INDENT, exit_code_of, write_next, write_outcome
from nki_agent.cli.progress import Progress
from nki_agent.cli.screen import show, show_json
from nki_agent.cost.perfetto import write_trace
from nki_agent.cost.summary import Summary
from nki_agent.llm.choose import BUILTIN, choose_model, require_model
from nki_agent.llm.protocol import Model, Usage
from nki_agent.program.records import Dialect
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.speed import estimate_speed
from nki_agent.verify.verdict import Verdict

TASK_HELP = "A PyTorch or NumPy reference with inputs."
DESCRIBE_HELP = "The task in words: the model writes it first, and you accept it."
YES_HELP = "Accept the task that `--describe` gives without a question."
CONVERSATION_HELP = "Show all that is said as it happens, and each kernel as a change of the last."
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
    docs: str = ""
    """Short hash of the user's documentation that `look_up` searches; empty without one."""


class SolveReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    run: str
    end: End
    message: str
    turns: int
    usage: Usage
    wall_ms: float
    kernel: str | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run from its config to its folder."""

    config: SolveConfig
    folder: RunFolder
    clock: Clock
    task: Task
    judge: Judge
    model: Model
    shows_all: bool = False
    """Whether whole texts are shown, in place of a line for each event."""

    def carry_out(self) -> Episode:
        """The episode; whatever ends it, the best kernel so far is in the folder."""
        config = self.config
        prompt = make_prompt(
            self.task,
            target=config.target,
            mode=config.mode,
            limits=config.limits,
            surface=config.surface,
        )
        tools = Toolbox(
            OneJudge(self.judge, self.task),
            target=config.target,
            root_seed=config.seed,
            surface=config.surface,
            docs=find_library(),
        )
        show_events = Conversation if self.shows_all else Progress
        with show_events(clock=self.clock, turns=config.limits.turns) as progress:
            trajectory = Trajectory(self.folder.trajectory, clock=self.clock, watch=progress.show)
            trajectory.add(self._start(trajectory, prompt))
            try:
                return asyncio.run(
                    run_episode(
                        prompt,
                        self.model,
                        tools,
                        limits=config.limits,
                        clock=self.clock,
                        trajectory=trajectory,
                    )
                )
            finally:
                if tools.best is not None:
                    self.folder.kernel.write_text(tools.best, encoding="utf-8")

    def write_results(self, episode: Episode) -> Summary | None:
        """Verdict and timeline of the judged kernel; None where it cannot run."""
        if episode.verdict is None or episode.kernel is None:
            return None
        # The verdict comes last: a folder that has one has everything else.
        summary = self._write_timeline(episode.kernel)
        self.folder.write_json(self.folder.verdict, episode.verdict)
        return summary

    def _write_timeline(self, kernel: str) -> Summary | None:
        found = self.judge.compile(Kernel.from_text(kernel), self.task.dev)
        if found.stage is not None or found.program is None or found.placement is None:
            return None
        speed = estimate_speed(found.program, found.placement, self.task.dev, self.config.target)
        write_trace(speed.timeline, found.program, self.folder.timeline)
        self.folder.write_json(self.folder.profile, speed.summary)
        return speed.summary

    def _start(self, trajectory: Trajectory, prompt: Prompt) -> Started:
        return Started(
            at=trajectory.now(),
            task=self.task.id,
            task_hash=self.task.hash,
            model=self.model.name,
            mode=self.config.mode,
            target=self.config.target.value,
            prompt_hash=prompt.hash,
        )


def solve(
    task: Annotated[Path | None, typer.Argument(metavar="TASK.py", help=TASK_HELP)] = None,
    *,
    words: Annotated[str | None, typer.Option("--describe", help=DESCRIBE_HELP)] = None,
    yes: Annotated[bool, typer.Option("--yes", help=YES_HELP)] = False,
    model: Annotated[str, typer.Option(help="`builtin`, or `scripted/FILE`.")] = BUILTIN,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    mode: Annotated[Mode, typer.Option(help="With tools, or one answer without.")] = Mode.LOOP,
    turns: Turns = None,
    surface: Annotated[Surface, typer.Option(help=SURFACE_HELP)] = Surface.NKI,
    seed: Seed = None,
    runs: Annotated[Path, typer.Option(help="Where the run's folder is made.")] = Path("runs"),
    dialect: Annotated[str, typer.Option(help="What the kernel is written in.")] = "nki",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    conversation: Annotated[bool, typer.Option("--conversation", help=CONVERSATION_HELP)] = False,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """Write a kernel for a task, and fix it until it is right. Everything is kept under runs/."""
    require_words(words, task, model=model)
    require_model(model)
    require_author(model, surface)
    clock, author = SystemClock(), None
    if words is not None:
        author = choose_model(model, make_builtin=_never)
        task = describe(words, author, runs=runs, clock=clock, accepts=yes)
        if task is None:
            return ExitCode.NOT_RIGHT
        untrusted_task = True  # a person has seen it, and still it is a model's code
    assert task is not None
    require_readable(model, untrusted_task=untrusted_task)
    source = read_text(task, what="task")
    config = SolveConfig(
        task=printable(task),
        task_source=short_hash(hash_text(source)),
        target=read_target(target),
        dialect=require_dialect(dialect),
        model=model,
        mode=mode,
        surface=surface,
        limits=choose_limits(turns, mode=mode, surface=surface),
        seed=draw_root_seed() if seed is None else seed,
        allow_unsandboxed=allow_unsandboxed,
        untrusted_task=untrusted_task,
        docs=hash_docs(),
    )
    folder = make_run_folder(runs, kind="solve", subject=task.stem, config=config, clock=clock)
    with keeping_errors(folder):
        folder.task.write_text(source, encoding="utf-8")
        episode, summary = _carry_out(
            task, config, folder, clock=clock, shows_all=conversation, author=author
        )
    if as_json:
        show_json(_make_report(episode, folder))
    else:
        show("\n".join(_write_report(episode, folder, config, summary)))
    return _exit_code(episode)


def _carry_out(
    path: Path,
    config: SolveConfig,
    folder: RunFolder,
    *,
    clock: Clock,
    shows_all: bool,
    author: Model | None,
) -> tuple[Episode, Summary | None]:
    """Load, run the episode, write what came of it."""
    task = read_task(
        path, untrusted=config.untrusted_task, allow_unsandboxed=config.allow_unsandboxed
    )
    model = author or choose_model(
        config.model, make_builtin=lambda: BuiltinAuthor(task, target=config.target)
    )
    with Judge(
        target=config.target,
        allow_unsandboxed=config.allow_unsandboxed,
        surface=config.surface,
    ) as judge:
        run = Run(
            config=config,
            folder=folder,
            clock=clock,
            task=task,
            judge=judge,
            model=model,
            shows_all=shows_all,
        )
        episode = run.carry_out()
        return episode, run.write_results(episode)


def _never() -> Model:
    raise AssertionError("require_words refuses the built-in author")


def _make_report(episode: Episode, folder: RunFolder) -> SolveReport:
    return SolveReport(
        run=printable(folder.path),
        end=episode.end,
        message=episode.message,
        turns=episode.turns,
        usage=episode.usage,
        wall_ms=episode.wall_ms,
        kernel=printable(folder.kernel) if episode.kernel is not None else None,
        verdict=episode.verdict,
    )


def _write_report(
    episode: Episode, folder: RunFolder, config: SolveConfig, summary: Summary | None
) -> Iterator[str]:
    if episode.verdict is not None:
        yield f"kernel      {folder.kernel}"
        yield from write_outcome(episode.verdict)
    else:
        yield "kernel      none"
    if episode.end is not End.SOLVED:
        end = episode.end.value.replace("_", " ")
        yield f"end         {end}: {indent(episode.message, INDENT).lstrip()}"
    yield f"run         {folder.path}"
    if summary is not None:
        yield from write_next(
            folder.kernel, task=Path(config.task), timeline=folder.timeline, summary=summary
        )


def _exit_code(episode: Episode) -> ExitCode:
    if episode.verdict is not None:
        return exit_code_of(episode.verdict.stage)
    match episode.end:
        case End.MODEL_ERROR | End.FAILED:
            return ExitCode.FAILURE
        case End.INTERRUPTED:
            return ExitCode.INTERRUPTED
        case (
            End.SOLVED
            | End.SUBMITTED_WRONG
            | End.TURNS
            | End.WALL_TIME
            | End.TOKENS
            | End.NO_KERNEL
            | End.GAVE_UP
        ):
            return ExitCode.NOT_RIGHT


app = make_app(solve)
