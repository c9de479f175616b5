"""`nki-agent task lint FILE…`: whether task files are fit to judge kernels by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from nki_agent.base.counting import count_of
from nki_agent.base.errors import TaskError, UnfitTaskError, UsageError
from nki_agent.cli.command import ExitCode, guard, make_group, report_error
from nki_agent.cli.inputs import JSON_HELP, printable, require_file
from nki_agent.cli.screen import say, show, show_json
from nki_agent.task.lint import FreshProcess, describe_unfit, lint_task
from nki_agent.task.loader import load_task
from nki_agent.task.subject import LintFinding
from nki_agent.task.task import Task

app = make_group("Read task files, and say whether they are fit to judge kernels by.")


class Linted(msgspec.Struct, frozen=True, kw_only=True):
    """One task file and what was found in it; `error` says why it could not be used at all."""

    file: str
    findings: tuple[LintFinding, ...] = ()
    error: str = ""


@app.command()
def lint(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Task files.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Say what makes a task unfit: noise, constants that pass, inputs that do not count."""
    guard(_lint)(files, as_json=as_json)


def _lint(files: list[Path], *, as_json: bool) -> ExitCode:
    files = list(dict.fromkeys(files))
    for path in files:
        require_file(path, what="task")
    fresh = FreshProcess.start(files)
    try:
        linted = _lint_all(files, fresh)
    finally:
        fresh.process.kill()
        fresh.process.wait()
    if as_json:
        show_json(linted)
    else:
        for one in linted:
            for finding in one.findings:
                show(f"{one.file}: {finding}")
    count = sum(len(one.findings) for one in linted)
    unread = sum(bool(one.error) for one in linted)
    summary = [count_of(len(linted), "file")]
    if unread < len(linted):
        summary.append(count_of(count, "finding"))
    if unread:
        summary.append(f"{unread} could not be read")
    say(", ".join(summary))
    if unread:
        return ExitCode.USAGE
    return ExitCode.NOT_RIGHT if count else ExitCode.RIGHT


def _lint_all(files: list[Path], fresh: FreshProcess) -> list[Linted]:
    """Load all here while the other process does, then lint each."""
    loaded: list[tuple[Path, Task | TaskError | UsageError]] = []
    for path in files:
        try:
            loaded.append((path, load_task(path)))
        except UnfitTaskError as error:
            loaded.append((path, error))
        except (TaskError, UsageError) as error:
            report_error(error)
            loaded.append((path, error))
    digests = fresh.digests()
    linted = []
    for path, found in loaded:
        file = printable(path)
        if isinstance(found, Task):
            findings = lint_task(found, fresh_digest=digests[str(path)])
            linted.append(Linted(file=file, findings=findings))
        elif isinstance(found, UnfitTaskError):
            linted.append(Linted(file=file, findings=(describe_unfit(found),)))
        else:
            linted.append(Linted(file=file, error=str(found)))
    return linted
