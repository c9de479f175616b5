"""Who may write a kernel on which surface, in how many turns, and from which seed."""

from __future__ import annotations

from nki_agent.agent.episode import LEVEL_TURNS, Limits, Mode, find_turns
from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import draw_root_seed
from nki_agent.check.surface import Surface
from nki_agent.llm.choose import BUILTIN, require_model
from nki_agent.llm.recorded import find_seed


def require_author(model: str, surface: Surface) -> None:
    """Refuse what stands for no author, or does not write the surface, before a run begins."""
    require_model(model)
    if model == BUILTIN and surface is not Surface.NKI:
        raise UsageError(
            f"the built-in author does not write the surface `{surface.value}`: it leaves places to"
            " the compiler",
            hint=f"use another `--model`, or `--surface {Surface.NKI.value}`",
        )


def require_readable(model: str, *, untrusted_task: bool) -> None:
    """Refuse the built-in author for a task that nobody has read."""
    if untrusted_task and model == BUILTIN:
        raise UsageError(
            "the built-in author reads the reference itself, which `--untrusted-task` keeps apart",
            hint="read the file and leave the option out, or use another `--model`",
        )


def choose_limits(turns: int | None, *, mode: Mode, surface: Surface) -> Limits:
    """The limits of an episode for a task without a level."""
    if mode is Mode.SINGLE_SHOT:
        return Limits(turns=1)
    return Limits(turns=find_turns(surface) if turns is None else turns)


def choose_level_turns(turns: int | None, *, mode: Mode, surface: Surface) -> dict[str, int]:
    """Model calls by level of the task; empty where all levels have the same."""
    if turns is not None or mode is Mode.SINGLE_SHOT:
        return {}
    return {str(level): number for level, number in LEVEL_TURNS[surface].items()}


def choose_seed(given: int | None, model: str) -> int:
    """The seed that is named; else that of the recording, so answers repeat; else a new one."""
    if given is not None:
        return given
    recorded = find_seed(model)
    return draw_root_seed() if recorded is None else recorded
