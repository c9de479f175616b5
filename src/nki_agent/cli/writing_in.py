"""`--surface` and `--dialect`: what kernels are written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from nki_agent.check.surface import Surface
from nki_agent.cli.inputs import SURFACE_HELP, require_dialect
from nki_agent.cli.option_group import takes_options
from nki_agent.program.records import Dialect

DIALECT_HELP = "What kernels are written in."
OPTIONS: dict[str, Any] = {
    "surface": Annotated[Surface, typer.Option(help=SURFACE_HELP)],
    "dialect": Annotated[str, typer.Option(help=DIALECT_HELP)],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingIn:
    """What was asked for, before it is resolved."""

    surface: Surface = Surface.NKI
    dialect: str = Dialect.CURRENT.value

    def resolve(self) -> Surface:
        """The surface; UsageError where this version does not write the dialect."""
        require_dialect(self.dialect)
        return self.surface


takes_writing_in = takes_options("writing_in", WritingIn, OPTIONS)
