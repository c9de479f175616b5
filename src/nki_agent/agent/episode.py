"""What an episode is bounded by and how it can end."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from nki_agent.check.surface import Surface
from nki_agent.llm.protocol import TokenLimits, Usage
from nki_agent.verify.verdict import Verdict


class Mode(StrEnum):
    """How a model is asked."""

    LOOP = "loop"
    """Turn by turn, with tools."""
    SINGLE_SHOT = "single-shot"
    """Once, without tools; the kernel is the last fenced Python block."""


class End(StrEnum):
    """Why an episode ended."""

    SOLVED = "solved"
    """The last judgement, on a seed of its own, says right."""
    SUBMITTED_WRONG = "submitted_wrong"
    TURNS = "turns"
    WALL_TIME = "wall_time"
    TOKENS = "tokens"
    NO_KERNEL = "no_kernel"
    """Replies without a kernel and without a tool call."""
    GAVE_UP = "gave_up"
    """The model says that it cannot."""
    BUDGET = "budget"
    """The task's dollars are used up."""
    RUN_BUDGET = "run_budget"
    """The run's tokens or dollars are; says nothing about the model."""
    MODEL_ERROR = "model_error"
    """The model gave no answer to this history."""
    MODEL_AWAY = "model_away"
    """The provider cannot be reached or does not let us in; says nothing about the model."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    """Our own or the machine's failure; says nothing about the model."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an episode may use; whichever is reached first ends it."""

    turns: int = 10
    """Model calls; ten as in the paper."""
    wall_s: float = 1800.0
    """Seconds for all turns; a reply is not waited for longer than what is left."""
    total_tokens: int = 1_000_000
    """Input and output of all turns; checked before each."""
    usd: float | None = None
    """Dollars for all turns; checked before each."""
    silent_turns: int = 3
    """Replies in a row with neither a kernel nor a tool call; more are not worth their price."""
    reply: TokenLimits = TokenLimits()


LEVEL_TURNS: dict[Surface, dict[int, int]] = {
    Surface.NKI: {},
    Surface.ISA: {1: 15, 2: 20, 3: 25},
}
"""Model calls by level of the task, where a surface asks for more than `Limits` has; a task without
a level is taken for one of the first.
"""


def find_turns(surface: Surface, level: int = 1) -> int:
    """Model calls that an episode may use where nobody says otherwise.

    >>> find_turns(Surface.NKI, 3), find_turns(Surface.ISA, 3), find_turns(Surface.ISA, 0)
    (10, 25, 15)
    """
    turns = LEVEL_TURNS[surface]
    return turns.get(level, turns.get(1, Limits().turns))


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """How one episode went. `verdict` judges `kernel`, on a seed that no tool has used."""

    end: End
    message: str
    turns: int
    usage: Usage
    wall_ms: float
    kernel: str | None
    verdict: Verdict | None
    usd: float | None = None
    """What all turns cost; None where no price is known."""

    @property
    def is_solved(self) -> bool:
        """Whether the kernel is right."""
        return self.end is End.SOLVED
