"""`--optimize N` and `--optimize-seconds S`: how far the built-in author searches."""

from __future__ import annotations

from nki_agent.agent.episode import Mode
from nki_agent.base.errors import UsageError
from nki_agent.builtin.search import Budget
from nki_agent.llm.choose import BUILTIN

OPTIMIZE_HELP = "Other drafts that the built-in author tries for speed at the perf shapes."
SECONDS_HELP = "Try drafts for so long; with --optimize, whichever ends first."


def read_budget(drafts: int | None, seconds: float | None, *, model: str, mode: Mode) -> Budget:
    """What was asked for.

    Raises:
        UsageError: a search by a model that decides by itself, or without tools.
    """
    budget = Budget(drafts=drafts, seconds=seconds)
    if budget.is_empty:
        return budget
    if model != BUILTIN:
        raise UsageError(
            f"`--optimize` is for the built-in author; `{model}` decides by itself",
            hint="leave it out, or use `--model builtin`",
        )
    if mode is Mode.SINGLE_SHOT:
        raise UsageError("a search needs tools", hint="leave `--mode single-shot` out")
    return budget


def raise_turns(turns: int | None, budget: Budget) -> int | None:
    """Turns that were asked for; a search brings those that it needs."""
    return turns if budget.is_empty else max(turns or 0, budget.turns)
