"""`nki-agent verify KERNEL.py … --task TASK.py`: the judge's word on one kernel, or on many."""

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
    read_kernel,
    read_target,
    read_task,
)
from nki_agent.cli.outcome import exit_code_of, write_advice, write_outcome
from nki_agent.cli.screen import show, show_json
from nki_agent.cli.verdicts import judge_many, read_jobs
from nki_agent.verify.judge import Judge

KERNELS_HELP = "The kernel file, or several."
WORKERS_HELP = "Processes that judge several kernels; one a core if left out."
RESULTS_HELP = "Add every outcome to this file; kernels that it has judged are not judged again."


def verify(
    kernels: Annotated[list[Path], typer.Argument(metavar="KERNEL.py", help=KERNELS_HELP)],
    *,
    task: Annotated[Path, typer.Option(metavar="TASK.py", help=TASK_HELP)],
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    seed: Annotated[int | None, typer.Option(min=0, help="Root seed; drawn if left out.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    workers: Annotated[int | None, typer.Option(min=1, help=WORKERS_HELP)] = None,
    results: Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help=RESULTS_HELP)] = None,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """Judge a kernel for a task: is it right, and how fast will it be."""
    chosen = read_target(target)
    if len(kernels) > 1 or results is not None:
        jobs = read_jobs(kernels, task=task, target=chosen, seed=seed)
        return judge_many(
            jobs,
            workers=workers,
            results=results,
            as_json=as_json,
            allow_unsandboxed=allow_unsandboxed,
        )
    source = read_kernel(kernels[0])
    loaded = read_task(task)
    with Judge(target=chosen, allow_unsandboxed=allow_unsandboxed) as judge:
        verdict = judge.judge(source, loaded, root_seed=draw_root_seed() if seed is None else seed)
    if as_json:
        show_json(verdict)
    else:
        show("\n".join((*write_outcome(verdict), *write_advice(verdict))))
    return exit_code_of(verdict.stage)


app = make_app(verify)
