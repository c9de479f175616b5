"""`--optimize N` and `--optimize-seconds S`: how far the built-in author searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from nki_agent.agent.episode import Mode
from nki_agent.base.errors import UsageError
from nki_agent.builtin.search import SearchBudget
from nki_agent.cli.inputs import COUNT_MAX
from nki_agent.cli.option_group import takes_options
from nki_agent.llm.choose import BUILTIN

OPTIMIZE_HELP = "Other drafts that the built-in author tries for speed at the perf shapes."
SECONDS_HELP = "Try drafts for so long; with --optimize, whichever ends first."
OPTIONS: dict[str, Any] = {
    "optimize": Annotated[int | None, typer.Option(min=1, max=COUNT_MAX, help=OPTIMIZE_HELP)],
    "optimize_seconds": Annotated[float | None, typer.Option(min=0.0, help=SECONDS_HELP)],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Searching:
    """What was asked for, before it is resolved."""

    optimize: int | None = None
    optimize_seconds: float | None = None

    def resolve(
        self, turns: int | None, *, model: str, mode: Mode
    ) -> tuple[SearchBudget, int | None]:
        """The budget, and the turns that were asked for; a search brings those that it needs.

        Raises:
            UsageError: a search by a model that decides by itself, or without tools.
        """
        budget = SearchBudget(drafts=self.optimize, seconds=self.optimize_seconds)
        if budget.is_empty:
            return budget, turns
        if model != BUILTIN:
            raise UsageError(
                f"`--optimize` is for the built-in author; `{model}` decides by itself",
                hint="leave it out, or use `--model builtin`",
            )
        if mode is Mode.SINGLE_SHOT:
            raise UsageError("a search needs tools", hint="leave `--mode single-shot` out")
        return budget, max(turns or 0, budget.turns)


takes_search = takes_options("searching", Searching, OPTIONS)
