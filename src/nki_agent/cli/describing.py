"""`nki-agent solve --describe "…"`: the task in words, accepted before it is solved."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import typer

from nki_agent import __version__
from nki_agent.agent.describing import Draft, Terms, describe_task
from nki_agent.agent.episode import Limits
from nki_agent.agent.folder import make_run_folder, make_slug
from nki_agent.agent.trajectory import Trajectory
from nki_agent.base.clock import Clock
from nki_agent.base.errors import TaskError, UsageError
from nki_agent.cli.inputs import as_word, printable
from nki_agent.cli.progress import Progress
from nki_agent.cli.screen import say
from nki_agent.cli.solving import keeping_errors
from nki_agent.llm.choose import BUILTIN, ModelSource
from nki_agent.llm.protocol import Model
from nki_agent.sandbox.task_host import TaskHost
from nki_agent.task.task import StaticArgument, Task, TensorArgument

SUBJECT_WORDS = 5
TURNS_SHOWN = 4


class DescribeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a model was asked to put into a task."""

    version: str = __version__
    words: str
    model: str


def require_words(words: str | None, task: Path | None, *, model: str) -> None:
    """Refuse what cannot be solved: no task, two of them, or words for who reads none."""
    if words is None and task is None:
        raise UsageError("no task", hint='give a TASK.py, or words with `--describe "…"`')
    if words is None:
        return
    if task is not None:
        raise UsageError("a task file and `--describe` are given", hint="give one of them")
    if not words.strip():
        raise UsageError("`--describe` has no words")
    if model == BUILTIN:
        raise UsageError(
            "the built-in author reads no words", hint="`--describe` needs another `--model`"
        )


def describe(
    words: str, models: ModelSource, *, limits: Limits, runs: Path, clock: Clock, accepts: bool
) -> tuple[Path | None, int]:
    """The accepted task's file, None where a person does not accept it; replies that it took.

    Raises:
        TaskError: no draft was fit.
        UsageError: nobody is there to accept it.
    """
    model = models.make_model(make_builtin=_never)
    subject = make_slug(" ".join(words.split()[:SUBJECT_WORDS]))
    config = DescribeConfig(words=words, model=model.name)
    folder = make_run_folder(runs, kind="describe", subject=subject, config=config, clock=clock)
    path = folder.path / f"{subject.replace('-', '_')}.py"
    with keeping_errors(folder):
        with (
            TaskHost() as host,  # what a model writes is never run without a sandbox
            Progress(clock=clock, turns=TURNS_SHOWN) as progress,
        ):
            work = describe_task(
                words,
                model,
                terms=Terms(path=path, host=host, limits=limits),
                clock=clock,
                trajectory=Trajectory(folder.trajectory, clock=clock, watch=progress.show),
            )
            draft = asyncio.run(models.drop_after(work))
        if not draft.is_fit:
            raise TaskError(
                f"no fit task came of the words: {draft.problems[0]}",
                hint=f"mend `{path}` and solve it" if draft.source is not None else "",
            )
        for line in _write_draft(draft, path):
            say(line)
        return (path if _is_accepted(path, accepts=accepts) else None), draft.turns


def _never() -> Model:
    raise AssertionError("require_words refuses the built-in author")


def _is_accepted(path: Path, *, accepts: bool) -> bool:
    if accepts:
        return True
    if not sys.stdin.isatty():
        raise UsageError(
            "nobody is there to accept the task",
            hint=f"read it, then `nki-agent solve {as_word(path)}`; `--yes` accepts unread",
        )
    if typer.confirm("Solve this task?", err=True):
        return True
    say(f"not solved; change the task as you like, then `nki-agent solve {as_word(path)}`")
    return False


def _write_draft(draft: Draft, path: Path) -> Iterator[str]:
    assert draft.source is not None
    assert draft.task is not None
    yield f"task        {printable(path)}"
    for line in draft.source.rstrip().splitlines():
        yield f"    {_clean(line)}"
    yield from _write_shapes(draft.task)
    yield "lint        nothing found: an honest kernel passes, constants and copies do not"


def _write_shapes(task: Task) -> Iterator[str]:
    for argument in task.arguments:
        match argument:
            case TensorArgument():
                yield f"input       {argument.name} {list(argument.shape)} {argument.dtype.value}"
            case StaticArgument():
                yield f"value       {argument.name} = {argument.value!r}"
    for output in task.outputs:
        yield f"output      {output.name} {list(output.shape)} {output.dtype.value}"


def _clean(line: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in line.expandtabs(4))
