"""From words to a task file: a model writes reference and inputs, and repairs what is unfit.

Law: what the model writes is loaded in a locked process only. It is a draft until a person has
accepted it; this module never solves it. What came of each draft is told to the model as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from nki_agent.agent.episode import Limits, Mode
from nki_agent.agent.loop import find_kernel
from nki_agent.agent.trajectory import Started, Trajectory, Turn
from nki_agent.base.clock import Clock
from nki_agent.base.errors import TaskError
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.llm.prices import add_usd
from nki_agent.llm.protocol import Message, Model, Role, StopReason, Usage
from nki_agent.sandbox.task_host import TaskHost, load_untrusted_task
from nki_agent.task.lint import lint_task
from nki_agent.task.task import Task

TURNS_MAX = 4
"""Replies until a draft is fit; a task that needs more is better written by hand."""
NS_PER_MS = 1e6
DESCRIBED = "words"
SPENT = "the limit of an episode in tokens or dollars is reached"
NO_FILE = "Your reply holds no fenced Python block. Give the whole task file in one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The last task file that a model wrote, and what is wrong with it."""

    source: str | None
    task: Task | None
    problems: tuple[str, ...]
    usage: Usage
    turns: int

    @property
    def is_fit(self) -> bool:
        """Whether kernels can be judged by it."""
        return self.task is not None and not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Where drafts go and are tried, and what they may cost."""

    path: Path
    """Each draft is written there."""
    host: TaskHost
    limits: Limits


async def describe_task(
    words: str, model: Model, *, terms: Terms, clock: Clock, trajectory: Trajectory
) -> Draft:
    """Ask for a task file until it is fit, or until the limits of an episode are reached.

    Raises:
        ModelError: no answer could be had.
    """
    system = files("nki_agent.agent").joinpath("outside", "describe.md").read_text(encoding="utf-8")
    history = [
        Message(role=Role.SYSTEM, content=system),
        Message(role=Role.USER, content=words.strip()),
    ]
    trajectory.add(
        Started(
            at=trajectory.now(),
            task=DESCRIBED,
            task_hash=hash_text(words),
            model=model.name,
            mode=Mode.SINGLE_SHOT,
            target="",
            prompt_hash=short_hash(hash_text(f"{system}\x1f{words}")),
        )
    )
    usage, sent, limits = Usage(), 0, terms.limits
    usd: float | None = 0.0
    draft = Draft(source=None, task=None, problems=(NO_FILE,), usage=usage, turns=0)
    for turn in range(1, TURNS_MAX + 1):
        if usage.total_tokens >= limits.total_tokens or _is_spent(usd, limits):
            return replace(draft, problems=(SPENT, *draft.problems))
        trajectory.announce(f"asking {model.name} for the task", turn=turn)
        start_ns = clock.monotonic_ns()
        reply = await model.reply(tuple(history), tools=(), limits=limits.reply)
        usage, usd = usage + reply.usage, add_usd(usd, reply.usd)
        model_ms = (clock.monotonic_ns() - start_ns) / NS_PER_MS
        told = tuple(history[sent:])
        trajectory.add(
            Turn(turn=turn, at=trajectory.now(), sent=told, reply=reply, model_ms=model_ms)
        )
        history.append(Message(role=Role.ASSISTANT, content=reply.text))
        sent = len(history)
        if reply.stop is StopReason.REFUSAL:
            problem = reply.text.strip() or "the model refuses"
            return Draft(source=None, task=None, problems=(problem,), usage=usage, turns=turn)
        draft = _try(find_kernel(reply.text), terms, usage=usage, turn=turn)
        if draft.is_fit:
            return draft
        history.append(Message(role=Role.USER, content=_write_problems(draft.problems)))
    return draft


def _is_spent(usd: float | None, limits: Limits) -> bool:
    return limits.usd is not None and (usd or 0.0) >= limits.usd


def _try(source: str | None, terms: Terms, *, usage: Usage, turn: int) -> Draft:
    """Load a draft in a locked process and lint it."""
    if source is None:
        return Draft(source=None, task=None, problems=(NO_FILE,), usage=usage, turns=turn)
    terms.path.write_text(source, encoding="utf-8", errors="replace")
    try:
        task = load_untrusted_task(terms.path, host=terms.host)
        problems = tuple(map(str, lint_task(task)))
    except TaskError as error:
        return Draft(source=source, task=None, problems=(str(error),), usage=usage, turns=turn)
    return Draft(source=source, task=task, problems=problems, usage=usage, turns=turn)


def _write_problems(problems: Sequence[str]) -> str:
    return "\n".join(("The task cannot be used yet:", *problems, "Give the whole file again."))
