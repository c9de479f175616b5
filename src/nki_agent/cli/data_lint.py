"""`nki-agent data lint DIR`: nothing of a benchmark is in a corpus or its trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.diagnostic import clean
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.data_solve import Folder, open_tasks
from nki_agent.cli.inputs import JSON_HELP
from nki_agent.cli.screen import say, show, show_json
from nki_agent.corpus.linting import Found, lint_corpus

UNSANDBOXED_HELP = (
    "Run the code of `--against` and of tasks that a model wrote though nothing can hold it."
)
AGAINST_HELP = "A folder of tasks that must not be in it, beside our benchmark."


def data_lint(
    folder: Folder,
    *,
    against: Annotated[list[Path] | None, typer.Option(metavar="DIR", help=AGAINST_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> None:
    """Prove that no benchmark task is in the tasks or trajectories, and no graph in two splits."""

    def begin() -> ExitCode:
        tasks, broken = open_tasks(folder)
        found = lint_corpus(
            folder,
            tasks,
            against=tuple(against or ()),
            tell=lambda text: say(f"note: {clean(text)}"),
            allow_unsandboxed=allow_unsandboxed,
        )
        if as_json:
            show_json(found)
        else:
            show("\n".join(_write(found)))
        if found.faults:
            return ExitCode.NOT_RIGHT
        return ExitCode.USAGE if broken else ExitCode.RIGHT

    guard(begin)()


def _write(found: Found) -> list[str]:
    lines = [f"fault     {clean(fault)}" for fault in found.faults]
    lines.append(
        f"compared  {found.tasks:,} tasks and {found.rows:,} rows of trajectories with"
        f" {found.known:,} tasks of benchmarks"
    )
    lines.append(f"faults    {len(found.faults)}")
    return lines
