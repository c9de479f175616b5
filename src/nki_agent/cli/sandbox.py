"""`nki-agent sandbox status`: what holds untrusted kernels on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from nki_agent.cli.command import ExitCode, guard, make_group
from nki_agent.cli.inputs import JSON_HELP
from nki_agent.cli.screen import show, show_json
from nki_agent.sandbox.pool import status as find_status

app = make_group("What this machine offers to hold untrusted kernels.")


@app.command()
def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Which layers there are, and why not the others. Fails where there are too few."""
    guard(_status)(as_json=as_json)


def _status(*, as_json: bool) -> ExitCode:
    found = find_status()
    if as_json:
        show_json(found)
    else:
        show(str(found))
    return ExitCode.RIGHT if found.is_enough else ExitCode.FAILURE
