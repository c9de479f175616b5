"""What `fix` and `optimize` share: from a user's kernel to a better one and what changed.

Law: the user's file is written only with `--write`, and only when the new kernel is right.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nki_agent import __version__
from nki_agent.agent.episode import End, Episode, Limits, Mode
from nki_agent.agent.folder import RunFolder, make_run_folder
from nki_agent.agent.improving import Goal, ImprovingTools, Start, add_start, scope_of
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.library import hash_docs
from nki_agent.agent.loop import solve as run_episode
from nki_agent.agent.prompt import make_prompt
from nki_agent.agent.trajectory import Started, Trajectory
from nki_agent.base.clock import Clock
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.chip.spec import Target
from nki_agent.cli.command import ExitCode
from nki_agent.cli.conversation import Conversation, paint_line
from nki_agent.cli.inputs import printable
from nki_agent.cli.outcome import US_NS, exit_code_of, write_outcome
from nki_agent.cli.progress import Progress
from nki_agent.cli.screen import say, show, show_json
from nki_agent.cost.perfetto import write_trace
from nki_agent.cost.summary import format_figure
from nki_agent.llm.protocol import Model, Usage
from nki_agent.report.transcript import diff_kernels
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.speed import estimate_speed
from nki_agent.verify.verdict import Verdict

SCHEMA = 1
DIFF_LINES_MAX = 60
"""A longer difference is a new kernel, and is better read as one."""
BY_EDITS = "the findings' own edits"


class ImproveConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked to do."""

    schema: int = SCHEMA
    version: str = __version__
    goal: Goal
    kernel: str
    kernel_hash: str
    task: str
    task_source: str
    target: Target
    model: str
    limits: Limits
    seed: int
    allow_unsandboxed: bool
    untrusted_task: bool
    docs: str
    """Short hash of the user's documentation that `look_up` searches; empty without one."""


class Improved(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a user's kernel; what `--json` prints."""

    goal: Goal
    by: str
    """Who changed it: a model, the findings' own edits, or nobody."""
    end: str
    message: str
    run: str | None
    kernel: str | None
    before: Verdict
    after: Verdict | None
    turns: int = 0
    usage: Usage = Usage()
    speedup: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One command: which kernel, what for, and how it is shown."""

    path: Path
    kernel: Kernel
    config: ImproveConfig
    task: Task
    runs: Path
    clock: Clock
    as_json: bool
    shows_all: bool
    writes: bool

    @property
    def source(self) -> str:
        """The user's kernel."""
        return self.kernel.source


def require_one_file(kernel: Kernel, path: Path) -> None:
    """Refuse a kernel with modules beside it: a model answers with one file."""
    if len(kernel.files) > 1:
        others = ", ".join(sorted(name for name in kernel.files if name != kernel.main))
        raise UsageError(
            f"`{printable(path)}` imports modules beside it: {others}",
            hint="put them into the one file",
        )


def judge_start(wish: Wish, judge: Judge, source: str) -> Verdict:
    """The verdict on a kernel before the first turn."""
    return judge.judge(
        Kernel.from_text(source),
        wish.task,
        root_seed=wish.config.seed,
        scope=scope_of(wish.config.goal),
    )


def improve(wish: Wish, judge: Judge, start: Start, *, model: Model) -> ExitCode:
    """Let a model work on the kernel, keep everything in a run's folder, and say what changed."""
    config = wish.config
    folder = make_run_folder(
        wish.runs, kind=config.goal.value, subject=wish.path.stem, config=config, clock=wish.clock
    )
    with keeping_errors(folder):
        folder.task.write_text(wish.task.source, encoding="utf-8")
        folder.start.write_text(wish.source, encoding="utf-8")
        episode = _run(wish, judge, start, model=model, folder=folder)
        _write_results(wish, judge, episode, folder)
    after = episode.verdict
    speedup = None
    if after is not None and after.right and after.latency_ns and start.verdict.latency_ns:
        speedup = start.verdict.latency_ns / after.latency_ns
    found = Improved(
        goal=config.goal,
        by=model.name,
        end=episode.end.value,
        message=episode.message,
        run=printable(folder.path),
        kernel=printable(folder.kernel) if episode.kernel is not None else None,
        before=start.verdict,
        after=after,
        turns=episode.turns,
        usage=episode.usage,
        speedup=speedup,
    )
    finish(wish, found, new=episode.kernel)
    return _exit_code(episode)


def finish(wish: Wish, found: Improved, *, new: str | None) -> None:
    """Write the user's file if asked, and say what changed."""
    is_better = found.after is not None and found.after.right and new not in (None, wish.source)
    if wish.writes and is_better:
        assert new is not None
        try:
            wish.path.write_text(new, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write `{wish.path}`: {error.strerror}") from error
        say(f"written: {printable(wish.path)}")
    if wish.as_json:
        show_json(found)
    else:
        show("\n".join(_write_report(wish, found, new)))


@contextlib.contextmanager
def keeping_errors(folder: RunFolder) -> Iterator[None]:
    """What stops a run is kept in its folder, and the folder is named on the way up."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):  # a full disk must not hide what came first
            folder.error.write_text(
                f"{type(error).__name__}: {error}\n", encoding="utf-8", errors="backslashreplace"
            )
        error.add_note(f"kept: {folder.path}")
        raise


def _run(wish: Wish, judge: Judge, start: Start, *, model: Model, folder: RunFolder) -> Episode:
    config = wish.config
    tools = ImprovingTools(
        OneJudge(judge, wish.task), start, target=config.target, root_seed=config.seed
    )
    prompt = add_start(
        make_prompt(wish.task, target=config.target, mode=Mode.LOOP, limits=config.limits), start
    )
    show_events = Conversation if wish.shows_all else Progress
    with show_events(clock=wish.clock, turns=config.limits.turns) as progress:
        trajectory = Trajectory(folder.trajectory, clock=wish.clock, watch=progress.show)
        trajectory.add(
            Started(
                at=trajectory.now(),
                task=wish.task.id,
                task_hash=wish.task.hash,
                model=model.name,
                mode=Mode.LOOP,
                target=config.target.value,
                prompt_hash=prompt.hash,
            )
        )
        try:
            return asyncio.run(
                run_episode(
                    prompt,
                    model,
                    tools,
                    limits=config.limits,
                    clock=wish.clock,
                    trajectory=trajectory,
                )
            )
        finally:
            if tools.best is not None:
                folder.kernel.write_text(tools.best, encoding="utf-8")


def _write_results(wish: Wish, judge: Judge, episode: Episode, folder: RunFolder) -> None:
    if episode.verdict is None or episode.kernel is None:
        return
    shapes = wish.task.perf
    found = judge.compile(Kernel.from_text(episode.kernel), shapes)
    if found.stage is None and found.program is not None and found.placement is not None:
        speed = estimate_speed(found.program, found.placement, shapes, wish.config.target)
        write_trace(speed.timeline, found.program, folder.timeline)
        folder.write_json(folder.profile, speed.summary)
    # The verdict comes last: a folder that has one has everything else.
    folder.write_json(folder.verdict, episode.verdict)


def _write_report(wish: Wish, found: Improved, new: str | None) -> Iterator[str]:
    yield f"before      {_sum_up(found.before)}"
    yield f"after       {'no kernel' if found.after is None else _sum_up(found.after)}"
    if found.speedup is not None and wish.config.goal is Goal.OPTIMIZE:
        changed = new != wish.source
        yield f"speedup     {f'{found.speedup:.2f}' if changed else 'none: no faster kernel'}"
    yield f"by          {found.by}"
    if found.end != End.SOLVED.value:
        yield f"end         {found.end.replace('_', ' ')}: {found.message}"
    if new is not None and new != wish.source:
        lines = list(diff_kernels(wish.source, new))
        if len(lines) <= DIFF_LINES_MAX:
            yield "change"
            yield from map(paint_line, lines)
    if found.after is not None:
        yield from write_outcome(found.after)
    if found.kernel is not None:
        yield f"kernel      {found.kernel}"
    if found.run is not None:
        yield f"run         {found.run}"


def _sum_up(verdict: Verdict) -> str:
    if verdict.latency_ns is None:
        return verdict.stage.value
    return f"{verdict.stage.value}, {format_figure(verdict.latency_ns / US_NS)} µs"


def _exit_code(episode: Episode) -> ExitCode:
    if episode.verdict is not None:
        return exit_code_of(episode.verdict.stage)
    match episode.end:
        case End.MODEL_ERROR | End.FAILED:
            return ExitCode.FAILURE
        case End.INTERRUPTED:
            return ExitCode.INTERRUPTED
        case _:
            return ExitCode.NOT_RIGHT


def make_config(
    goal: Goal, path: Path, kernel: Kernel, *, task: Path, source: str, **settings: object
) -> ImproveConfig:
    """The config of one command; `source` is the task's text."""
    return msgspec.convert(
        {
            "goal": goal,
            "kernel": printable(path),
            "kernel_hash": short_hash(kernel.hash),
            "task": printable(task),
            "docs": hash_docs(),
            "task_source": short_hash(hash_text(source)),
            **settings,
        },
        ImproveConfig,
    )
