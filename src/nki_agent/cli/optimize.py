"""`nki-agent optimize KERNEL.py --task TASK.py`: from a right kernel to a faster one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.agent.improving import Goal
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.ablating import Ablating, takes_ablation
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.fix import RUNS_HELP, improve_kernel
from nki_agent.cli.inputs import (
    CONVERSATION_HELP,
    JSON_HELP,
    SURFACE_HELP,
    TARGET_HELP,
    TASK_HELP,
    UNSANDBOXED_HELP,
    UNTRUSTED_HELP,
    Seed,
    Turns,
)
from nki_agent.cli.spending import Spending, takes_spending
from nki_agent.llm.choose import BUILTIN, MODEL_HELP

WRITE_HELP = "Write the fastest kernel to KERNEL.py, if it is faster and right."


@takes_ablation
@takes_spending
def optimize(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL.py", help="A right kernel.")],
    *,
    task: Annotated[Path, typer.Option(metavar="TASK.py", help=TASK_HELP)],
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = BUILTIN,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    turns: Turns = None,
    ablating: Ablating,
    surface: Annotated[Surface, typer.Option(help=SURFACE_HELP)] = Surface.NKI,
    seed: Seed = None,
    runs: Annotated[Path, typer.Option(help=RUNS_HELP)] = Path("runs"),
    spending: Spending,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    conversation: Annotated[bool, typer.Option("--conversation", help=CONVERSATION_HELP)] = False,
    write: Annotated[bool, typer.Option("--write", help=WRITE_HELP)] = False,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """Make a right kernel faster, and keep the fastest right one; says what changed."""
    return improve_kernel(
        Goal.OPTIMIZE,
        kernel,
        task,
        model=model,
        target=target,
        turns=turns,
        ablating=ablating,
        surface=surface,
        seed=seed,
        runs=runs,
        spending=spending,
        as_json=as_json,
        conversation=conversation,
        write=write,
        untrusted_task=untrusted_task,
        allow_unsandboxed=allow_unsandboxed,
    )


app = make_app(optimize)
