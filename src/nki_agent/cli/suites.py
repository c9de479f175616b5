"""`nki-agent bench list | show`: what a suite holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent import __version__
from nki_agent.base.counting import count_of
from nki_agent.base.seeds import draw_root_seed
from nki_agent.base.writing import new_folder
from nki_agent.bench.hidden import hide_suite, make_source
from nki_agent.bench.importers.toml import write_toml
from nki_agent.bench.suite import (
    SUITE_FILE,
    Suite,
    SuiteRecord,
    SuiteTask,
    builtin_suite,
    read_suite,
)
from nki_agent.chip.spec import Target, load_chip
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.evaluating import SPLIT_HELP, SUITE_HELP, choose_tasks
from nki_agent.cli.inputs import JSON_HELP, Seed
from nki_agent.cli.screen import say, show_json
from nki_agent.cli.screen import show as print_data
from nki_agent.cost.bound import bound_ns
from nki_agent.cost.summary import format_figure
from nki_agent.task.description import describe_task
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify.speed import make_work

US_NS = 1000.0


def list_tasks(
    *,
    split: Annotated[str, typer.Option(help=SPLIT_HELP)] = "all",
    suite: Annotated[Path | None, typer.Option(metavar="DIR", help=SUITE_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """The tasks of a suite: id, level, category."""

    def write() -> ExitCode:
        chosen = builtin_suite() if suite is None else read_suite(suite)
        tasks = choose_tasks(chosen, split=split, ids=None, is_own=suite is None)
        if as_json:
            show_json([_describe(task) for task in tasks])
        else:
            width = max((len(task.id) for task in tasks), default=0)
            print_data("\n".join(_write_line(task, width=width) for task in tasks))
        return ExitCode.RIGHT

    guard(write)()


def _describe(task: SuiteTask) -> dict[str, object]:
    return {
        "id": task.id,
        "level": task.level,
        "category": task.category,
        "sha256": task.sha256,
        "path": str(task.path),
    }


def _write_line(task: SuiteTask, *, width: int) -> str:
    return f"{task.id:<{width}}  level {task.level}  {task.category}"


def show_task(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")],
    *,
    suite: Annotated[Path | None, typer.Option(metavar="DIR", help=SUITE_HELP)] = None,
    source: Annotated[bool, typer.Option("--source", help="Print the file instead.")] = False,
) -> None:
    """One task: its tensors, its sizes, how it is judged, its least work and bound."""

    def write() -> ExitCode:
        chosen = builtin_suite() if suite is None else read_suite(suite)
        entry = chosen.find_task(task)
        if source or not entry.is_trusted:
            print_data(entry.path.read_text(encoding="utf-8").rstrip())
        else:
            print_data("\n".join(_write_task(chosen, entry)))
        return ExitCode.RIGHT

    guard(write)()


def _write_task(suite: Suite, entry: SuiteTask) -> list[str]:
    task = load_task(entry.path, name=entry.id)
    lines = [f"{entry.id}: level {entry.level}, {entry.category}, of {suite.name}"]
    lines += describe_task(task).splitlines()[1:]
    lines += [_write_bound(task, target) for target in Target]
    return [*lines, f"file: {entry.path}"]


def _write_bound(task: Task, target: Target) -> str:
    found = bound_ns(make_work(task.perf), load_chip(target))
    figure = format_figure(found.ns / US_NS)
    return f"bound at {task.perf.name} on {target.value}: {figure} µs ({found.resource.value})"


def hide(
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write; new or empty.")],
    seed: Seed = None,
) -> None:
    """Write our own suite with odd sizes that nobody has seen; run it with `--suite DIR`.

    The seed is the secret that decides the sizes.
    """

    def write() -> ExitCode:
        suite = builtin_suite()
        secret = draw_root_seed() if seed is None else seed
        rows = []
        with new_folder(out, hint="name a new folder"):
            for row in hide_suite(suite, out, seed=secret):
                rows.append(row)
                is_same = "" if row.changes else "  as it is"
                say(f"[{len(rows)}/{len(suite.tasks)}] {row.id}{is_same}")
            record = SuiteRecord(
                source=make_source(suite, seed=secret, version=__version__), task=tuple(rows)
            )
            (out / SUITE_FILE).write_text(write_toml(record), encoding="utf-8")
        print_data(
            f"{count_of(len(rows), 'task')} written to {out},"
            f" {sum(bool(r.changes) for r in rows)} hidden"
        )
        return ExitCode.RIGHT

    guard(write)()
