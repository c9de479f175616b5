"""What an evaluation was asked to do, and under which versions; written beside its results."""

from __future__ import annotations

from typing import Any

import msgspec

import nki_agent
from nki_agent.agent.ablation import Ablation
from nki_agent.agent.episode import Limits, Mode
from nki_agent.base.hashes import hash_bytes
from nki_agent.builtin.search import NO_BUDGET, SearchBudget
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.cost.version import MODEL_VERSION
from nki_agent.llm.meter import Budget
from nki_agent.llm.prices import Tariff

SCHEMA = 1
"""Raised by every change that an older reader would misread."""


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What figures depend on beside the model; those made under different ones are never mixed."""

    suite: str
    """Name and version of the benchmark."""
    suite_hash: str
    """Hash of its tasks."""
    cost_model: int = MODEL_VERSION
    baseline: str | None = None
    """Hash of the frozen baseline; None where the suite has none."""


class TaskRef(msgspec.Struct, frozen=True, kw_only=True):
    """One task that was asked for, as far as tables need it."""

    id: str
    level: int
    category: str


class EvalConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One evaluation with every default filled in."""

    schema: int = SCHEMA
    tool: str = nki_agent.__version__
    versions: Versions
    split: str
    tasks: tuple[TaskRef, ...]
    model: str
    mode: Mode
    surface: Surface = Surface.NKI
    """What a kernel may use; figures of different ones are never mixed."""
    targets: tuple[Target, ...]
    samples: int
    """Attempts for each task and target."""
    limits: Limits
    level_turns: dict[str, int] = {}
    """Model calls by level of the task, in place of those of `limits`."""
    perf: bool
    """Whether right kernels are also tried at the perf shapes."""
    seed: int
    """Root of every secret seed."""
    ablation: Ablation = Ablation()
    """Prompt and tools; what is left out for an experiment."""
    prompts: str = ""
    """Version and hash of the prompts' words; empty in runs from before they were recorded."""
    archive: str | None = None
    """Hash of the archive that `find_kernels` reads; None without one."""
    allow_unsandboxed: bool = False
    tariff: Tariff = Tariff()
    """How replies are charged."""
    budget: Budget = Budget()
    """For all attempts together."""
    optimize: SearchBudget = NO_BUDGET
    """How far the built-in author searches for faster kernels."""

    def limits_at(self, level: int) -> Limits:
        """What an episode for a task of this level may use."""
        turns = self.level_turns.get(str(level), self.limits.turns)
        return msgspec.structs.replace(self.limits, turns=turns)

    @property
    def hash(self) -> str:
        """Of its text in `config.json`, however that is laid out."""
        return hash_plain_config(msgspec.to_builtins(self))


def hash_plain_config(plain: Any) -> str:
    """The hash of a config as plain data: a field that a later version adds does not change it."""
    return hash_bytes(msgspec.json.encode(plain, order="sorted"))
