"""`nki-agent verify KERNEL.py --task TASK.py`: the judge's word on one kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.seeds import draw_root_seed
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.inputs import (
    JSON_HELP,
    TARGET_HELP,
    TASK_HELP,
    UNSANDBOXED_HELP,
    UNTRUSTED_HELP,
    read_kernel,
    read_target,
    read_task,
)
from nki_agent.cli.outcome import exit_code_of, write_advice, write_outcome
from nki_agent.cli.screen import show, show_json
from nki_agent.verify.judge import Judge


def verify(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL.py", help="The kernel file.")],
    *,
    task: Annotated[Path, typer.Option(metavar="TASK.py", help=TASK_HELP)],
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    seed: Annotated[int | None, typer.Option(min=0, help="Root seed; drawn if left out.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """Judge a kernel for a task: is it right, and how fast will it be."""
    chosen, source = read_target(target), read_kernel(kernel)
    loaded = read_task(task, untrusted=untrusted_task, allow_unsandboxed=allow_unsandboxed)
    with Judge(target=chosen, allow_unsandboxed=allow_unsandboxed) as judge:
        verdict = judge.judge(source, loaded, root_seed=draw_root_seed() if seed is None else seed)
    if as_json:
        show_json(verdict)
    else:
        show("\n".join((*write_outcome(verdict), *write_advice(verdict))))
    return exit_code_of(verdict.stage)


app = make_app(verify)
