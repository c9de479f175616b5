"""`nki-agent explain CODE`."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from nki_agent.base.catalogue import CATALOGUE
from nki_agent.base.errors import UsageError
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.screen import show


def explain(
    code: Annotated[str, typer.Argument(metavar="CODE", help="A diagnostic code, as NK204.")],
) -> ExitCode:
    """What a diagnostic code means, and what to do."""
    info = CATALOGUE.get(code.upper())
    if info is None:
        near = difflib.get_close_matches(code.upper(), CATALOGUE, n=3)
        raise UsageError(f"no code `{code}`", hint=f"near codes: {', '.join(near)}" if near else "")
    show(f"{info.code}: {info.title}\n{info.explanation}\nWhat to do: {info.hint}")
    return ExitCode.RIGHT


app = make_app(explain)
