"""`nki-agent solve TASK.py`: an episode with its run folder, then what came of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Annotated

import msgspec
import typer

from nki_agent import __version__
from nki_agent.agent.ablation import Ablation, PromptKind, make_ablation
from nki_agent.agent.archive import Archive, choose_archive, hash_archive, read_archive
from nki_agent.agent.best_of import Sample, choose_best, list_samples, sample_seed, sum_up_episodes
from nki_agent.agent.episode import End, Episode, Limits, Mode
from nki_agent.agent.folder import RunFolder, make_run_folder
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.loop import solve as run_episode
from nki_agent.agent.prompt import Prompt, make_prompt, read_versions
from nki_agent.agent.tools import Toolbox
from nki_agent.agent.trajectory import Started, Trajectory
from nki_agent.base.clock import Clock, SystemClock
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.base.seeds import draw_root_seed
from nki_agent.builtin.author import BuiltinAuthor
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET, Target
from nki_agent.cli.authoring import choose_limits, require_author
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.inputs import (
    ARCHIVE_HELP,
    JSON_HELP,
    PROMPT_HELP,
    SURFACE_HELP,
    TARGET_HELP,
    TOOLS_HELP,
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
    ablation: Ablation
    prompts: str
    samples: tuple[Sample, ...] = ()
    """Every episode in short, where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run from its config to its folder."""

    config: SolveConfig
    folder: RunFolder
    clock: Clock
    task: Task
    judge: Judge
    model: Model

    def carry_out(self) -> tuple[Episode, ...]:
        """Every sample's episode; whatever ends them, the best kernel so far is in the folder."""
        episodes: list[Episode] = []
        for number in range(self.config.samples):
            episodes.append(self._carry_out_sample(number))
            best = sum_up_episodes(episodes).kernel
            if best is not None:
                self.folder.kernel.write_text(best, encoding="utf-8")
        return tuple(episodes)

    def _carry_out_sample(self, number: int) -> Episode:
        config = self.config
        seed = sample_seed(config.seed, number)
        tools = Toolbox(
            OneJudge(self.judge, self.task),
            target=config.target,
            root_seed=seed,
            tools=config.ablation.tools,
            archive=self._find_archive(seed),
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
        with Progress(clock=self.clock, turns=config.limits.turns) as progress:
            path = self.folder.sample_trajectory(number)
            trajectory = Trajectory(path, clock=self.clock, watch=progress.show)
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
                if tools.best is not None and not self.folder.kernel.exists():
                    self.folder.kernel.write_text(tools.best, encoding="utf-8")

    def _find_archive(self, seed: int) -> Archive | None:
        if self.config.archive is None or self.config.archive_hash is None:
            return None
        kept = read_archive(Path(self.config.archive))
        return choose_archive(kept, target=self.config.target.value, root_seed=seed)

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
    task: Annotated[
        Path, typer.Argument(metavar="TASK.py", help="A PyTorch or NumPy reference with inputs.")
    ],
    *,
    model: Annotated[str, typer.Option(help="`builtin`, or `scripted/FILE`.")] = BUILTIN,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    mode: Annotated[Mode, typer.Option(help="With tools, or one answer without.")] = Mode.LOOP,
    turns: Turns = None,
    prompt: Annotated[PromptKind, typer.Option(help=PROMPT_HELP)] = PromptKind.RANK_AWARE,
    tools: Annotated[str | None, typer.Option(help=TOOLS_HELP)] = None,
    samples: Annotated[int, typer.Option(min=1, help="Episodes; the best kernel counts.")] = 1,
    archive: Annotated[Path | None, typer.Option(metavar="DIR", help=ARCHIVE_HELP)] = None,
    surface: Annotated[Surface, typer.Option(help=SURFACE_HELP)] = Surface.NKI,
    seed: Seed = None,
    runs: Annotated[Path, typer.Option(help="Where the run's folder is made.")] = Path("runs"),
    dialect: Annotated[str, typer.Option(help="What the kernel is written in.")] = "nki",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """Write a kernel for a task, and fix it until it is right. Everything is kept under runs/."""
    require_model(model)
    require_author(model, surface)
    if untrusted_task and model == BUILTIN:
        raise UsageError(
            "the built-in author reads the reference itself, which `--untrusted-task` keeps apart",
            hint="read the file and leave the option out, or use another `--model`",
        )
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
        ablation=make_ablation(prompt, tools, mode=mode),
        prompts=str(read_versions()),
        samples=samples,
        archive=printable(archive or runs),
        archive_hash=_hash_archive(archive, runs),
    )
    episodes, summary, folder = _run_in_folder(task, source, config, runs)
    episode = sum_up_episodes(episodes)
    if as_json:
        show_json(_make_report(episodes, folder, config))
    else:
        show("\n".join(_write_report(episodes, folder, config, summary)))
    return _exit_code(episode)


def _run_in_folder(
    path: Path, source: str, config: SolveConfig, runs: Path
) -> tuple[tuple[Episode, ...], Summary | None, RunFolder]:
    """Carry a run out in a folder of its own, which keeps whatever comes."""
    clock = SystemClock()
    folder = make_run_folder(runs, kind="solve", subject=path.stem, config=config, clock=clock)
    try:
        folder.task.write_text(source, encoding="utf-8")
        return *_carry_out(path, config, folder, clock=clock), folder
    except BaseException as error:
        with contextlib.suppress(OSError):  # a full disk must not hide what came first
            folder.error.write_text(
                f"{type(error).__name__}: {error}\n", encoding="utf-8", errors="backslashreplace"
            )
        error.add_note(f"kept: {folder.path}")
        raise


def _carry_out(
    path: Path, config: SolveConfig, folder: RunFolder, *, clock: Clock
) -> tuple[tuple[Episode, ...], Summary | None]:
    """Load, run the episodes, write what came of the best."""
    task = read_task(
        path, untrusted=config.untrusted_task, allow_unsandboxed=config.allow_unsandboxed
    )
    model = choose_model(
        config.model, make_builtin=lambda: BuiltinAuthor(task, target=config.target)
    )
    with Judge(
        target=config.target,
        allow_unsandboxed=config.allow_unsandboxed,
        surface=config.surface,
    ) as judge:
        run = Run(config=config, folder=folder, clock=clock, task=task, judge=judge, model=model)
        episodes = run.carry_out()
        return episodes, run.write_results(sum_up_episodes(episodes))


def _hash_archive(archive: Path | None, runs: Path) -> str | None:
    """What is in the folder that is named, else beside the run; a named one must be there."""
    if archive is None and not runs.is_dir():
        return None
    kept = read_archive(archive or runs)
    return hash_archive(kept) if kept else None


def _make_report(
    episodes: Sequence[Episode], folder: RunFolder, config: SolveConfig
) -> SolveReport:
    episode = sum_up_episodes(episodes)
    return SolveReport(
        run=printable(folder.path),
        end=episode.end,
        message=episode.message,
        turns=episode.turns,
        usage=episode.usage,
        wall_ms=episode.wall_ms,
        kernel=printable(folder.kernel) if episode.kernel is not None else None,
        verdict=episode.verdict,
        ablation=config.ablation,
        prompts=config.prompts,
        samples=list_samples(episodes) if len(episodes) > 1 else (),
    )


def _write_report(
    episodes: Sequence[Episode], folder: RunFolder, config: SolveConfig, summary: Summary | None
) -> Iterator[str]:
    episode = sum_up_episodes(episodes)
    if len(episodes) > 1:
        stages = ", ".join("none" if s.stage is None else s.stage for s in list_samples(episodes))
        yield f"samples     {stages}; the best is number {choose_best(episodes) + 1}"
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
