"""`nki-agent mcp`: the tools for another agent.

Law: errors travel up to the command line's last place, which says them and knows their exit codes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.errors import UsageError
from nki_agent.base.interrupts import INTERRUPTED, held
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET, Target, find_target
from nki_agent.farm.executor import WORKERS_MAX
from nki_agent.farm.local import LocalExecutor
from nki_agent.farm.wire import FarmLimits
from nki_agent.mcp.desk import Desk

LOOPBACK = "127.0.0.1"
TASK_HELP = "The task of calls that name none."
TARGET_HELP = f"The chip of calls that name none: one of {', '.join(Target)}."
SURFACE_HELP = "What kernels may use: all of NKI, or `nki.isa` alone at explicit addresses."
HTTP_HELP = "Serve streamable HTTP at this port, instead of stdin and stdout."
HOST_HELP = "The address to listen at; others than this machine's own can then ask too."
ROOT_HELP = "Over HTTP: the folder whose files clients may name; the current one if left out."
WORKERS_HELP = "Processes that judge; one a core if left out."
UNTRUSTED_HELP = "Load task files in a sandbox. Over HTTP they always are, unless `--trust-tasks`."
TRUST_HELP = "Over HTTP: let task files that clients name run as your own code."
UNSANDBOXED_HELP = "Trace kernels even where nothing can hold them; only for kernels you trust."

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def mcp(
    *,
    task: Annotated[Path | None, typer.Option(metavar="TASK.py", help=TASK_HELP)] = None,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    surface: Annotated[Surface, typer.Option(help=SURFACE_HELP)] = Surface.NKI,
    http: Annotated[
        int | None, typer.Option(metavar="PORT", min=1, max=65535, help=HTTP_HELP)
    ] = None,
    host: Annotated[str, typer.Option(help=HOST_HELP)] = LOOPBACK,
    root: Annotated[Path, typer.Option(metavar="DIR", help=ROOT_HELP)] = Path(),
    workers: Annotated[int | None, typer.Option(min=1, max=WORKERS_MAX, help=WORKERS_HELP)] = None,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    trust_tasks: Annotated[bool, typer.Option(help=TRUST_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> None:
    """Serve compile, verify, profile and look-up tools to another agent, by the MCP."""
    chosen = find_target(target.lower())
    if chosen is None:
        raise UsageError(f"no target `{target}`", hint=f"there are {', '.join(Target)}")
    if task is not None and not task.is_file():
        raise UsageError(f"no task file `{task}`")
    try:
        from nki_agent.mcp import server  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`nki-agent mcp` needs the package `{error.name}`",
            hint="in the checkout: pip install '.[mcp]'",
        ) from error
    trusted = trust_tasks or http is None
    limits = FarmLimits(allow_unsandboxed=allow_unsandboxed)
    with held(), LocalExecutor(workers=workers, limits=limits) as executor:
        desk = Desk(
            executor=executor,
            task=None if task is None else task.absolute(),
            target=chosen,
            surface=surface,
            is_task_trusted=trusted and not untrusted_task,
            allow_unsandboxed=allow_unsandboxed,
            root=None if http is None else root.resolve(),
        )
        try:
            if http is None:
                asyncio.run(server.serve_stdio(desk))
            else:
                typer.echo(f"serving at http://{host}:{http}{server.PATH}", err=True)
                server.serve_http(desk, host=host, port=http)
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error
