"""`nki-agent profile KERNEL.py --task TASK.py`: the timeline in figures, and as a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.writing import writing
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.inputs import (
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
from nki_agent.cli.outcome import PERFETTO, report_unfit
from nki_agent.cli.screen import say, show, show_json
from nki_agent.cost.perfetto import write_trace
from nki_agent.cost.summary import format_summary
from nki_agent.program.records import Program
from nki_agent.verify.judge import Judge
from nki_agent.verify.speed import Speed, estimate_speed


def profile(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL.py", help="The kernel file.")],
    *,
    task: Annotated[Path, typer.Option(metavar="TASK.py", help=TASK_HELP)],
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the timeline, for Perfetto.")
    ] = None,
    shapes: Annotated[str | None, typer.Option(help=SHAPES_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """Say where a kernel's time goes, and what bounds it."""
    chosen, source = read_target(target), read_kernel(kernel)
    loaded = read_task(task, untrusted=untrusted_task, allow_unsandboxed=allow_unsandboxed)
    at = read_shapes(loaded, shapes)
    with Judge(target=chosen, allow_unsandboxed=allow_unsandboxed) as judge:
        found = judge.compile(source, at)
    if found.stage is not None or found.program is None or found.placement is None:
        assert found.stage is not None
        return report_unfit(found.stage, found.diagnostics, as_json=as_json)
    speed = estimate_speed(found.program, found.placement, at, chosen)
    if trace is not None:
        _write(speed, found.program, trace)
    if as_json:
        show_json(speed.summary)
    else:
        show(format_summary(speed.summary))
    return ExitCode.RIGHT


def _write(speed: Speed, program: Program, path: Path) -> None:
    with writing(path, what="write the trace"):
        write_trace(speed.timeline, program, path)
    say(f"timeline: {path} (open it in {PERFETTO})")


app = make_app(profile)
