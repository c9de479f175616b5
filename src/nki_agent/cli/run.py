"""`nki-agent run SCRIPT.py …`: the user's own script, with our `nki`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.cli.command import guard
from nki_agent.cli.inputs import require_file
from nki_agent.runtime.script import run_script

EAGER_HELP = "Give tiles values while a kernel runs: for `print(tile)` and `breakpoint()`; slow."

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT.py", help="A script that imports nki.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]…", help="Arguments of the script.")
    ] = None,
    *,
    eager: Annotated[bool, typer.Option("--eager", help=EAGER_HELP)] = False,
) -> None:
    """Run a script that imports `nki`, on our simulator. Its exit code is passed on."""
    guard(_run)(script, arguments or [], is_eager=eager)


def _run(script: Path, arguments: list[str], *, is_eager: bool) -> int:
    require_file(script, what="script")
    return run_script(script, arguments, is_eager=is_eager)
