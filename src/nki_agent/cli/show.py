"""`nki-agent show KERNEL.py --task TASK.py`: the traced instructions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.inputs import (
    COUNT_MAX,
    JSON_HELP,
    SHAPES_HELP,
    TARGET_HELP,
    TASK_HELP,
    UNSANDBOXED_HELP,
    UNTRUSTED_HELP,
    read_kernel,
    read_shapes,
    read_target,
    read_task,
)
from nki_agent.cli.outcome import report_unfit
from nki_agent.cli.screen import show as print_data
from nki_agent.cli.screen import show_json
from nki_agent.program.listing import list_program, list_rows
from nki_agent.verify.judge import Judge


def show(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL.py", help="The kernel file.")],
    *,
    task: Annotated[Path, typer.Option(metavar="TASK.py", help=TASK_HELP)],
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    limit: Annotated[
        int | None, typer.Option(min=1, max=COUNT_MAX, help="Most instructions.")
    ] = None,
    shapes: Annotated[str | None, typer.Option(help=SHAPES_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """List a kernel's traced instructions with their source lines."""
    chosen, source = read_target(target), read_kernel(kernel)
    loaded = read_task(task, untrusted=untrusted_task, allow_unsandboxed=allow_unsandboxed)
    at = read_shapes(loaded, shapes)
    with Judge(target=chosen, allow_unsandboxed=allow_unsandboxed) as judge:
        result = judge.compile(source, at)
    if result.program is None:
        assert result.stage is not None
        return report_unfit(result.stage, result.diagnostics, as_json=as_json)
    if as_json:
        show_json(tuple(list_rows(result.program, limit=limit)))
        return ExitCode.RIGHT
    for line in list_program(result.program, limit=limit):
        print_data(line)
    return ExitCode.RIGHT


app = make_app(show)
