"""`--optimize N` and `--optimize-seconds S`: how far the built-in author searches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import typer

from nki_agent.agent.episode import Limits, Mode
from nki_agent.base.errors import UsageError
from nki_agent.builtin.search import SearchBudget
from nki_agent.cli.inputs import COUNT_MAX
from nki_agent.cli.option_group import takes_options
from nki_agent.llm.choose import BUILTIN

OPTIMIZE_HELP = "Other drafts that the built-in author tries for speed at the perf shapes."
SECONDS_HELP = "Try drafts for so long, a day at most; with --optimize, whichever ends first."
SECONDS_MAX = 86_400.0
"""Of a search; an episode gets them beside its own time."""
OPTIONS: dict[str, Any] = {
    "optimize": Annotated[int | None, typer.Option(min=1, max=COUNT_MAX, help=OPTIMIZE_HELP)],
    "optimize_seconds": Annotated[
        float | None, typer.Option(min=0.0, max=SECONDS_MAX, help=SECONDS_HELP)
    ],
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
        if self.optimize_seconds is not None and not math.isfinite(self.optimize_seconds):
            raise UsageError(f"`--optimize-seconds {self.optimize_seconds}` is no time")
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


def widen(limits: Limits, budget: SearchBudget) -> Limits:
    """The limits of an episode that has the time of a search beside its own."""
    return msgspec.structs.replace(limits, wall_s=limits.wall_s + (budget.seconds or 0.0))


takes_search = takes_options("searching", Searching, OPTIONS)
