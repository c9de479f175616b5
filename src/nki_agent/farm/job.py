"""One job of the judge, and the ways in which it can end.

Law: a verdict is written for `Judged` only. All but that and `Looked` say nothing about the kernel:
our own bug, the machine, bad input.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import require_seed
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET, Target
from nki_agent.task.task import Scope
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Verdict


class Ask(StrEnum):
    """What is wanted of the judge."""

    VERDICT = "verdict"
    LOOK = "look"  # without data: how far it comes, where its time would go


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A kernel to be judged for a task; `id` names it in results and must be unique in a run."""

    id: str
    kernel: Kernel
    task: Path
    """The task's file; a worker loads it, never the caller."""
    target: Target = DEFAULT_TARGET
    ask: Ask = Ask.VERDICT
    scope: Scope = Scope.PROOF
    surface: Surface = Surface.NKI
    is_task_trusted: bool = True
    """Whether the task's file may run in the worker; else it gets a locked process of its own."""
    root_seed: int | None = None
    """None is a secret seed, drawn when the job runs; the verdict records it."""

    def __post_init__(self) -> None:
        """UsageError for an id or a seed that no result file could hold."""
        try:
            self.id.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"the job id {self.id!a} is not text in UTF-8") from error
        if not self.id:
            raise UsageError("a job needs an id")
        if self.root_seed is not None:
            require_seed(self.root_seed)


class Judged(msgspec.Struct, frozen=True, tag="judged"):
    """The judge's word, good or bad."""

    verdict: Verdict


class Looked(msgspec.Struct, frozen=True, tag="looked"):
    """What a look says."""

    look: Look


class Faulted(msgspec.Struct, frozen=True, tag="faulted"):
    """A bug of ours; please report the traceback."""

    trace: str


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """The machine failed every attempt: a worker killed, no memory, a full disk, a hang."""

    reason: str


class Unusable(msgspec.Struct, frozen=True, tag="unusable"):
    """The task or the kernel's file cannot be used."""

    message: str
    hint: str = ""


End = Judged | Looked | Faulted | Lost | Unusable
