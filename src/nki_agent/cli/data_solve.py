"""`nki-agent data solve DIR`: the built-in author over a corpus."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.clock import SystemClock
from nki_agent.base.counting import count_of
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.inputs import (
    COUNT_MAX,
    JSON_HELP,
    TARGET_HELP,
    UNSANDBOXED_HELP,
    Seed,
    read_target,
)
from nki_agent.cli.rate import Rate
from nki_agent.cli.screen import say, show, show_json
from nki_agent.corpus.record import CorpusTask
from nki_agent.corpus.solving import Progress, Solving
from nki_agent.corpus.stored import read_tasks
from nki_agent.farm.executor import WORKERS_MAX

FOLDER_HELP = "A folder that `data build` has written. Its tasks' code runs on this machine."
LIMIT_HELP = "Only the first so many tasks."
WORKERS_HELP = "Processes; one a core if left out."
SEED_0_HELP = "Root seed; the same one gives the same rows."
REASONS_SHOWN = 12
FAILED_SHOWN = 5

Folder = Annotated[Path, typer.Argument(metavar="DIR", help=FOLDER_HELP)]
Limit = Annotated[int | None, typer.Option(min=1, max=COUNT_MAX, help=LIMIT_HELP)]
Workers = Annotated[int | None, typer.Option(min=1, max=WORKERS_MAX, help=WORKERS_HELP)]


def solve(
    folder: Folder,
    *,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    limit: Limit = None,
    workers: Workers = None,
    seed: Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> None:
    """Let the built-in author solve the tasks of a corpus; goes on where it was stopped."""

    def begin() -> ExitCode:
        tasks, broken = open_tasks(folder)
        solving = Solving(
            folder=folder,
            tasks=tasks,
            target=read_target(target),
            root_seed=0 if seed is None else seed,
            workers=choose_workers(workers),
            limit=limit,
            allow_unsandboxed=allow_unsandboxed,
        )
        rate = Rate(clock=SystemClock(), noun="tasks")
        progress = solving.carry_out(watch=lambda p: _watch(rate, p), warn=note)
        return _conclude(progress, broken=broken, as_json=as_json)

    guard(begin)()


def open_tasks(folder: Path) -> tuple[tuple[CorpusTask, ...], int]:
    """The tasks of a corpus, and how many rows are broken; each of those is named."""
    rows = read_tasks(folder)
    for text in rows.broken:
        say(f"broken    {clean(text)}")
    if not rows.good:
        raise UsageError(f"`{folder}` holds no task", hint="make a corpus with `data build`")
    return rows.good, len(rows.broken)


def choose_workers(given: int | None) -> int:
    """As many as cores that this process may use, unless told."""
    return len(os.sched_getaffinity(0)) if given is None else given


def note(text: str) -> None:
    """A warning of a file."""
    say(f"note: {text}")


def say_failures(failed: dict[str, str]) -> None:
    """What the machine or we failed at, the first ones by name."""
    for name, why in list(failed.items())[:FAILED_SHOWN]:
        say(f"failed    {clean(name)}: {clean(why)}")
    if (more := len(failed) - FAILED_SHOWN) > 0:
        say(f"failed    and {more} more")


def _watch(rate: Rate, progress: Progress) -> None:
    rate.show(progress.done, total=progress.total, rest=f"; {progress.solved} solved")


def _conclude(progress: Progress, *, broken: int, as_json: bool) -> ExitCode:
    if as_json:
        show_json(
            {
                "tasks": progress.total,
                "solved": progress.solved,
                "unsolved": dict(progress.reasons.most_common()),
                "failed": progress.failed,
                "broken_rows": broken,
            }
        )
    else:
        show("\n".join(_write(progress)))
    say_failures(progress.failed)
    if progress.failed:
        say("hint: the same command tries them again")
        return ExitCode.FAILURE
    return ExitCode.USAGE if broken else ExitCode.RIGHT


def _write(progress: Progress) -> Iterator[str]:
    unsolved = progress.reasons.total()
    yield f"solved    {progress.solved} of {count_of(progress.total, 'task')}"
    if unsolved:
        yield f"unsolved  {unsolved}"
    for reason, count in progress.reasons.most_common(REASONS_SHOWN):
        yield f"  {count:5}  {reason}"
    if (more := len(progress.reasons) - REASONS_SHOWN) > 0:
        yield f"         and {count_of(more, 'other reason')}"
