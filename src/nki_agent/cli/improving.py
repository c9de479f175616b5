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
from nki_agent.agent.ablation import Ablation
from nki_agent.agent.episode import End, Episode, Limits, Mode
from nki_agent.agent.folder import RunFolder, make_run_folder
from nki_agent.agent.improving import Goal, ImprovingTools, Start, add_start, scope_of
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.library import hash_docs
from nki_agent.agent.loop import solve as run_episode
from nki_agent.agent.past import STOPPED, begin_or_go_on, hold, make_start
from nki_agent.agent.prompt import make_prompt, read_versions
from nki_agent.agent.trajectory import Trajectory
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.builtin.author import BuiltinAuthor
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.cli.command import ExitCode
from nki_agent.cli.conversation import paint_line
from nki_agent.cli.inputs import as_word, printable
from nki_agent.cli.outcome import US_NS, exit_code_of_episode, write_outcome
from nki_agent.cli.screen import say, show, show_json
from nki_agent.cli.solving import Showing, keeping_errors, write_results
from nki_agent.cli.spending import write_usd
from nki_agent.cost.summary import format_figure
from nki_agent.llm.meter import Budget
from nki_agent.llm.prices import Tariff
from nki_agent.llm.protocol import Model, Usage
from nki_agent.report.transcript import diff_kernels
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
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
    surface: Surface
    ablation: Ablation
    prompts: str
    """Version and hash of the prompts' words."""
    tariff: Tariff
    budget: Budget
    docs: str
    """Short hash of the user's documentation that `look_up` searches; empty without one."""
    writes: bool = False
    """Whether a right kernel goes into the user's file."""


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
    usd: float | None = 0.0
    """What the model cost; None where no price is known."""
    speedup: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One command: which kernel, what for, and how it is shown."""

    path: Path
    kernel: Kernel
    config: ImproveConfig
    task: Task
    runs: Path
    how: Showing
    as_json: bool
    folder: RunFolder | None = None
    """That of a run which goes on; else one is made."""

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


def improve(wish: Wish, judge: Judge, start: Start) -> ExitCode:
    """Let a model work on the kernel, keep everything in a run's folder, and say what changed."""
    config, clock = wish.config, wish.how.clock
    model = wish.how.models.make_model(
        make_builtin=lambda: BuiltinAuthor(wish.task, target=config.target)
    )
    with contextlib.ExitStack() as stack:
        folder = wish.folder
        if folder is None:
            folder = make_run_folder(
                wish.runs,
                kind=config.goal.value,
                subject=wish.path.stem,
                config=config,
                clock=clock,
            )
            stack.enter_context(hold(folder.path))
        stack.enter_context(keeping_errors(folder))
        if wish.folder is None:
            folder.task.write_text(wish.task.source, encoding="utf-8")
            folder.start.write_text(wish.source, encoding="utf-8")
        episode = _run(wish, judge, start, model=model, folder=folder)
        write_results(episode, folder, judge, wish.task.perf)
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
        usd=episode.usd,
        speedup=speedup,
    )
    finish(wish, found, new=episode.kernel)
    return exit_code_of_episode(episode)


def finish(wish: Wish, found: Improved, *, new: str | None) -> None:
    """Write the user's file if asked, and say what changed."""
    is_better = found.after is not None and found.after.right and new not in (None, wish.source)
    if wish.config.writes and is_better:
        assert new is not None
        _write_kernel(wish, new)
    if wish.as_json:
        show_json(found)
    else:
        show("\n".join(_write_report(wish, found, new)))


def _write_kernel(wish: Wish, new: str) -> None:
    """Put a new kernel into the user's file, if that is what the run began with."""
    try:
        if wish.path.read_text(encoding="utf-8-sig") != wish.source:
            say(f"not written: {printable(wish.path)} was changed since the run began")
            return
        wish.path.write_text(new, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write `{wish.path}`: {error.strerror}") from error
    say(f"written: {printable(wish.path)}")


def _run(wish: Wish, judge: Judge, start: Start, *, model: Model, folder: RunFolder) -> Episode:
    config = wish.config
    tools = ImprovingTools(
        OneJudge(judge, wish.task),
        start,
        target=config.target,
        root_seed=config.seed,
        tools=config.ablation.tools,
        surface=config.surface,
    )
    prompt = make_prompt(
        wish.task,
        target=config.target,
        mode=Mode.LOOP,
        limits=config.limits,
        ablation=tools.restrict(config.ablation),
        surface=config.surface,
    )
    prompt, clock = add_start(prompt, start), wish.how.clock
    with wish.how.watch(turns=config.limits.turns) as progress:
        trajectory = Trajectory(folder.trajectory, clock=clock, watch=progress.show)
        begun = make_start(wish.task, prompt, model=model, target=config.target)
        begin_or_go_on(trajectory, begun)
        try:
            episode = run_episode(
                prompt,
                model,
                tools,
                limits=config.limits,
                clock=clock,
                trajectory=trajectory,
            )
            return asyncio.run(wish.how.models.drop_after(episode))
        finally:
            if tools.best is not None:
                folder.kernel.write_text(tools.best, encoding="utf-8")


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
        if found.end in STOPPED:
            yield f"go on       nki-agent resume {as_word(found.run)}"
    if found.usage.total_tokens:
        yield f"cost        {write_usd(found.usd)}, {found.usage.total_tokens} tokens"


def _sum_up(verdict: Verdict) -> str:
    if verdict.latency_ns is None:
        return verdict.stage.value
    return f"{verdict.stage.value}, {format_figure(verdict.latency_ns / US_NS)} µs"


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
            "prompts": str(read_versions()),
            "task_source": short_hash(hash_text(source)),
            **settings,
        },
        ImproveConfig,
    )
