"""Every number of the experiment.

Law: a number that a result depends on is here and nowhere else; the same plan in the same folder
goes on where it was stopped. A plan is a TOML file; what it leaves out has the values below.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from nki_agent.base.bounded import UnreadableError, read_text
from nki_agent.base.errors import UsageError


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a plan."""


class DataPlan(Part, frozen=True, kw_only=True):
    """What is learned from and measured on."""

    train_fused: int = 4000
    """Training tasks with several operators; of those with one operator all are taken."""
    practice_single: int = 40
    """Tasks that GRPO tries and SFT never sees: on what was taught all attempts are alike."""
    practice_fused: int = 280
    held_out_single: int = 60
    """Of graphs that are not taught."""
    held_out_known: int = 50
    """With one operator, of graphs that are taught at other sizes or in another dtype."""
    held_out_fused: int = 14
    tokens_max: int = 256
    """Of a prompt, and of a kernel."""
    single_tokens_max: int = 330
    """Of a whole dialogue about one operator with one reply."""
    fused_tokens_max: int = 300
    """The same of several operators: longer ones teach less for their time."""
    repair_tokens_max: int = 520
    """Of a whole repair."""
    ranks_single: int = 2
    """Times that a training task of one operator is made anew at another rank, where it can be."""
    ranks_fused: int = 1
    numbers_single: int = 2
    """Times that one of one operator is made anew with other numbers at its own rank; those at
    other ranks have other numbers too."""
    sizes_single: int = 6
    """Choices of sizes at which a single shot of one operator is shown."""
    sizes_fused: int = 3
    vocabulary: int = 2048
    repairs: float = 0.3
    """Share of the kernels for which there is a repair of a planted fault."""


class ModelPlan(Part, frozen=True, kw_only=True):
    """A Qwen3-MoE from scratch."""

    hidden: int = 192
    layers: int = 4
    experts: int = 8
    experts_per_token: int = 2
    expert_hidden: int = 128
    head: int = 32
    query_heads: int = 6
    key_heads: int = 2


class SftPlan(Part, frozen=True, kw_only=True):
    """SFT of all weights."""

    steps: int = 3000
    batch: int = 8
    learning_rate: float = 3e-3
    kinds: tuple[str, ...] = ()
    """Of dialogues; all where empty."""


class GrpoPlan(Part, frozen=True, kw_only=True):
    """GRPO of all weights: both rewards alike."""

    steps: int = 16
    tasks_per_step: int = 6
    attempts: int = 8
    learning_rate: float = 2e-4
    reply_tokens: int = 208
    levels: tuple[int, ...] = (1, 2)


class EvaluationPlan(Part, frozen=True, kw_only=True):
    """How models are measured."""

    turns: int = 8
    """Replies in the loop: as many as 40 minutes a seed leave time for."""
    remembered: int = 1
    """Replies of its own that a model reads again, as in the dialogues that it was taught."""
    temperature: float = 0.6
    """Of the replies after a verdict; the first takes the likeliest tokens, as a single shot."""


class ExperimentPlan(Part, frozen=True, kw_only=True):
    """The whole."""

    data: DataPlan = DataPlan()
    model: ModelPlan = ModelPlan()
    sft: SftPlan = SftPlan()
    grpo: GrpoPlan = GrpoPlan()
    evaluation: EvaluationPlan = EvaluationPlan()
    seeds: tuple[int, ...] = (0, 1, 2)
    at_once: int = 2
    """Seeds that run side by side."""
    threads: int = 1
    """Of PyTorch in each of them."""


def read_plan(path: Path | None) -> ExperimentPlan:
    """The plan in a file, or the one above.

    Raises:
        UsageError: it cannot be read, or a key or value of it is not known.
    """
    if path is None:
        return ExperimentPlan()
    try:
        return msgspec.convert(tomllib.loads(read_text(path)), ExperimentPlan)
    except (UnreadableError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"the plan {path}: {error}") from error
