"""`nki-agent workspace TASK DIR`: a task for a coding agent, and the judge of what it writes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nki_agent.agent.answers import write_faults
from nki_agent.agent.episode import Limits, Mode
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.loop import solve
from nki_agent.agent.prompt import make_prompt, write_brief
from nki_agent.agent.tools import Toolbox
from nki_agent.agent.trajectory import Trajectory
from nki_agent.agent.workspace import (
    KERNEL,
    Laid,
    Store,
    is_unwritten,
    judge_outcome,
    lay_out,
    read_laid,
    require_new,
)
from nki_agent.base.clock import SystemClock
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_bytes, hash_text
from nki_agent.base.seeds import draw_root_seed
from nki_agent.bench.suite import builtin_suite
from nki_agent.builtin.author import BuiltinAuthor
from nki_agent.chip.spec import DEFAULT_TARGET, Target
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.inputs import (
    JSON_HELP,
    TARGET_HELP,
    UNSANDBOXED_HELP,
    UNTRUSTED_HELP,
    as_word,
    printable,
    read_kernel,
    read_target,
    read_task,
)
from nki_agent.cli.outcome import US_NS, exit_code_of, paint_stage, write_outcome
from nki_agent.cli.screen import say, show, show_json
from nki_agent.cost.summary import format_figure, format_summary
from nki_agent.evals.workshop import find_baseline
from nki_agent.task.task import Scope, Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel

TASK_HELP = "A task file, or the id of one of the benchmark's tasks."
DIR_HELP = "The workspace's folder."
BUILTIN = "the built-in author's kernel"
LAY, VERIFY = "lay", "verify"
Allow = Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help=DIR_HELP)]


class WithoutName(TyperGroup):
    """A first word that is no command is the task of `lay`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Put `lay` before what is none of the commands."""
        if args and args[0] not in self.commands:
            args = [LAY, *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=WithoutName,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(subcommand_metavar="TASK DIR | COMMAND DIR")
def workspace() -> None:
    """Lay out a task for a coding agent (`workspace TASK DIR`), and judge what it wrote there."""


@app.command(LAY)
def lay(
    task: Annotated[str, typer.Argument(metavar="TASK", help=TASK_HELP)],
    folder: Folder,
    *,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Allow = False,
) -> None:
    """Lay a workspace out; `workspace TASK DIR` is the same."""
    guard(_lay)(task, folder, read_target(target), untrusted_task, allow_unsandboxed)


@app.command("compile")
def compile_kernel(folder: Folder, *, allow_unsandboxed: Allow = False) -> None:
    """Trace the workspace's kernel and lay out its memory."""
    guard(_look)(folder, allow_unsandboxed, is_profile=False)


@app.command("profile")
def profile(folder: Folder, *, allow_unsandboxed: Allow = False) -> None:
    """Say where the time of the workspace's kernel goes, at the size whose speed counts."""
    guard(_look)(folder, allow_unsandboxed, is_profile=True)


@app.command(VERIFY)
def verify(folder: Folder, *, allow_unsandboxed: Allow = False) -> None:
    """Judge the workspace's kernel on secret inputs."""
    guard(_verify)(folder, allow_unsandboxed)


@app.command("check")
def check(
    folder: Folder,
    *,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    allow_unsandboxed: Allow = False,
) -> None:
    """Say whether the task is done: right at every size, and faster than the baseline."""
    guard(_check)(folder, allow_unsandboxed, as_json=as_json)


def _lay(
    name: str, folder: Path, target: Target, untrusted_task: bool, allow_unsandboxed: bool
) -> ExitCode:
    require_new(folder)
    path = _find_task(name)
    task = read_task(path, untrusted=untrusted_task, allow_unsandboxed=allow_unsandboxed)
    baseline_ns, baseline_by = _find_frozen(path, task, target)
    if baseline_ns is None and untrusted_task:
        baseline_by = "the built-in author reads no untrusted task"
    elif baseline_ns is None:
        with Judge(target=target, allow_unsandboxed=allow_unsandboxed) as judge:
            baseline_ns, baseline_by = _write_baseline(task, judge)
    laid = Laid(
        folder=printable(folder.resolve()),
        task=printable(path),
        task_hash=hash_text(task.source),
        target=target,
        is_task_trusted=not untrusted_task,
        baseline_ns=baseline_ns,
        baseline_by=baseline_by,
    )
    brief = write_brief(task, target=target)
    store = lay_out(folder, task, laid, brief=brief)
    # The copy must stand alone: it is what the kernel is judged by.
    read_task(store.task, untrusted=untrusted_task, allow_unsandboxed=allow_unsandboxed)
    show(f"workspace   {folder}\nkept        {store.path}")
    at = "" if baseline_ns is None else f": {format_figure(baseline_ns / US_NS)} µs"
    show(f"baseline    {baseline_by}{at}")
    show(
        f"next        let an agent work in {folder},"
        f" then `nki-agent workspace check {as_word(folder)}`"
    )
    return ExitCode.RIGHT


def _find_task(name: str) -> Path:
    path = Path(name)
    if path.suffix == ".py" or path.exists():
        return path
    return builtin_suite().find_task(name).path


def _find_frozen(path: Path, task: Task, target: Target) -> tuple[float | None, str]:
    """The benchmark's baseline, where the task is one of its."""
    suite = builtin_suite()
    digest = hash_bytes(path.read_bytes())
    for entry in suite.tasks:
        if entry.sha256 == digest and (baseline := find_baseline(suite)) is not None:
            found = baseline.find_ns(entry.id, target.value, task.perf.name)
            return found, f"the frozen baseline of version {suite.version}"
    return None, ""


def _write_baseline(task: Task, judge: Judge) -> tuple[float | None, str]:
    """Let the built-in author write a kernel, and time it."""
    limits = Limits()
    tools = Toolbox(OneJudge(judge, task), target=judge.target, root_seed=draw_root_seed())
    clock = SystemClock()
    episode = asyncio.run(
        solve(
            make_prompt(task, target=judge.target, mode=Mode.LOOP, limits=limits),
            BuiltinAuthor(task, target=judge.target),
            tools,
            limits=limits,
            clock=clock,
            trajectory=Trajectory(None, clock=clock),
        )
    )
    if not episode.is_solved or episode.kernel is None:
        return None, episode.message.splitlines()[0]
    found = judge.look(Kernel.from_text(episode.kernel), task.perf)
    if found.summary is None:
        return None, "the built-in author's kernel does not fit at the size whose speed counts"
    return found.summary.latency_ns, BUILTIN


def _open(folder: Path, allow_unsandboxed: bool) -> tuple[Store, Laid, Task, Kernel]:
    store, laid = read_laid(folder)
    if not (folder / KERNEL).exists():
        raise UsageError(
            f"no kernel file `{folder / KERNEL}`", hint="the kernel for TASK.md goes there"
        )
    kernel = read_kernel(folder / KERNEL)
    task = read_task(
        store.task, untrusted=not laid.is_task_trusted, allow_unsandboxed=allow_unsandboxed
    )
    if is_unwritten(kernel.source, task):
        say(f"note: nothing is written in {KERNEL} yet; the task is in TASK.md")
    return store, laid, task, kernel


def _look(folder: Path, allow_unsandboxed: bool, *, is_profile: bool) -> ExitCode:
    _, laid, task, kernel = _open(folder, allow_unsandboxed)
    with Judge(target=laid.target, allow_unsandboxed=allow_unsandboxed) as judge:
        found = judge.look(kernel, task.perf if is_profile else task.dev)
    if found.stage is not None:
        show(
            "\n".join((f"verdict     {paint_stage(found.stage)}", *write_faults(found.diagnostics)))
        )
        return exit_code_of(found.stage)
    assert found.summary is not None
    if is_profile:
        show(format_summary(found.summary))
    else:
        head = f"compiles    {found.num_instructions} instructions"
        show("\n".join((head, *write_faults(found.diagnostics), f"next        ./{VERIFY}")))
    return ExitCode.RIGHT


def _verify(folder: Path, allow_unsandboxed: bool) -> ExitCode:
    store, laid, task, kernel = _open(folder, allow_unsandboxed)
    with Judge(target=laid.target, allow_unsandboxed=allow_unsandboxed) as judge:
        verdict = judge.judge(kernel, task, root_seed=draw_root_seed())
        timed = judge.look(kernel, task.perf) if verdict.right else None
    store.add(verdict)
    show("\n".join(write_outcome(verdict)))
    if timed is not None and timed.summary is not None and laid.baseline_ns is not None:
        speedup = laid.baseline_ns / timed.summary.latency_ns
        time = format_figure(timed.summary.latency_ns / US_NS)
        show(
            f"speed       {time} µs at the size whose speed counts:"
            f" {speedup:.2f} times as fast as {laid.baseline_by}"
        )
    return exit_code_of(verdict.stage)


def _check(folder: Path, allow_unsandboxed: bool, *, as_json: bool) -> ExitCode:
    store, laid, task, kernel = _open(folder, allow_unsandboxed)
    with Judge(target=laid.target, allow_unsandboxed=allow_unsandboxed) as judge:
        verdict = judge.judge(kernel, task, root_seed=draw_root_seed(), scope=Scope.ALL)
    store.add(verdict)
    outcome = judge_outcome(laid, verdict)
    if as_json:
        show_json(outcome)
    else:
        show("\n".join(write_outcome(verdict)))
        show(f"success     {'yes' if outcome.success else 'no'}: {outcome.reason}")
        say(f"verdicts: {store.verdicts}")
    if outcome.success:
        return ExitCode.RIGHT
    return ExitCode.NOT_RIGHT if verdict.right else exit_code_of(verdict.stage)
