"""`nki-agent verify KERNEL.py … --task TASK.py`: the judge's word on one kernel, or on many."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import draw_root_seed
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.inputs import (
    SURFACE_HELP,
    TARGET_HELP,
    TASK_HELP,
    UNSANDBOXED_HELP,
    UNTRUSTED_HELP,
    Seed,
    read_kernel,
    read_target,
    read_task,
    require_file,
    say_unfit,
)
from nki_agent.cli.outcome import exit_code_of, write_advice, write_outcome
from nki_agent.cli.screen import say, show, show_json
from nki_agent.cli.verdicts import NO_PERF, Wanted, judge_many, read_jobs
from nki_agent.farm.executor import WORKERS_MAX
from nki_agent.task.fitness import with_fitness
from nki_agent.task.loader import load_task
from nki_agent.task.task import Scope
from nki_agent.verify.judge import Judge

KERNELS_HELP = "The kernel file, or several."
WORKERS_HELP = "Processes that judge several kernels; one a core if left out."
VERDICTS_HELP = "Print one JSON document; of several kernels, one JSON line each as it is judged."
PERF_HELP = "Try the kernel at the task's perf shapes too, and give its speed there."
RESULTS_HELP = "Add every outcome to this file; kernels that it has judged are not judged again."


def verify(
    kernels: Annotated[list[Path], typer.Argument(metavar="KERNEL.py", help=KERNELS_HELP)],
    *,
    task: Annotated[Path, typer.Option(metavar="TASK.py", help=TASK_HELP)],
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    surface: Annotated[Surface, typer.Option(help=SURFACE_HELP)] = Surface.NKI,
    seed: Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help=VERDICTS_HELP)] = False,
    perf: Annotated[bool, typer.Option("--perf", help=PERF_HELP)] = False,
    workers: Annotated[int | None, typer.Option(min=1, max=WORKERS_MAX, help=WORKERS_HELP)] = None,
    results: Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help=RESULTS_HELP)] = None,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """Judge a kernel for a task: is it right, and how fast will it be."""
    chosen = read_target(target)
    scope = Scope.ALL if perf else Scope.PROOF
    if len(kernels) > 1 or results is not None:
        if not untrusted_task:
            _warn_unfit(task)
        wanted = Wanted(
            task=task,
            target=chosen,
            seed=seed,
            scope=scope,
            surface=surface,
            is_task_trusted=not untrusted_task,
        )
        return judge_many(
            read_jobs(kernels, wanted),
            workers=workers,
            results=results,
            as_json=as_json,
            allow_unsandboxed=allow_unsandboxed,
        )
    source = read_kernel(kernels[0])
    loaded = read_task(
        task,
        untrusted=untrusted_task,
        allow_unsandboxed=allow_unsandboxed,
        asks_fitness=True,
    )
    if perf and not loaded.has_perf:
        say(f"note: {NO_PERF}")
    with Judge(target=chosen, allow_unsandboxed=allow_unsandboxed, surface=surface) as judge:
        root_seed = draw_root_seed() if seed is None else seed
        verdict = judge.judge(source, loaded, root_seed=root_seed, scope=scope)
    if as_json:
        show_json(verdict)
    else:
        show("\n".join((*write_outcome(verdict), *write_advice(verdict))))
    return exit_code_of(verdict.stage)


def _warn_unfit(task: Path) -> None:
    """Say once what the workers, which load the task each for itself, do not look for."""
    require_file(task, what="task")
    with suppress(TaskError):  # each worker finds it again, and says it beside its kernel
        say_unfit(with_fitness(load_task(task)))


app = make_app(verify)
