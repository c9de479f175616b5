"""One attempt: a kernel for a task, how far it came, how fast it is, and what it cost.

Law: an attempt is one line of a results file and needs nothing else to be scored. `fast` figures
come only from kernels that are right at the perf shapes too.
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

from nki_agent.check.surface import Surface
from nki_agent.verify.verdict import Stage

SCHEMA = 1
"""Raised by every change that an older reader would misread."""


class ShapeSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of a right kernel at one shape set."""

    shapes: str
    latency_ns: float
    bound_ns: float
    percent_of_bound: float
    limited_by: str = ""
    baseline_ns: float | None = None
    """The frozen baseline's latency; None where it has none for this task and target."""
    percent_of_peak: float | None = None
    """The literature's figure, to compare with it."""

    @property
    def speedup(self) -> float | None:
        """Baseline over latency; None without a baseline."""
        return None if self.baseline_ns is None else self.baseline_ns / self.latency_ns


class Proof(StrEnum):
    """What is known of a kernel at the perf shapes."""

    UNTRIED = "untried"
    RIGHT = "right"
    WRONG = "wrong"


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt used up."""

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    usd: float | None = 0.0
    """None where no price is known."""
    wall_s: float = 0.0


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `attempts.jsonl`."""

    schema: int = SCHEMA
    task: str
    task_hash: str
    level: int
    category: str
    target: str
    sample: int
    root_seed: int
    config_hash: str = ""
    """Hash of the config of its run; empty where it was made outside of one."""
    stage: Stage | None
    """How far the handed-in kernel came; None where none was handed in."""
    end: str
    message: str = ""
    codes: tuple[str, ...] = ()
    """Codes of the errors of the last verdict."""
    kernel_hash: str | None = None
    kernel: str | None = None
    """The kernel's file below the run's folder."""
    trajectory: str | None = None
    surface: Surface = Surface.NKI
    """What the kernel was allowed to use."""
    proof: Proof = Proof.UNTRIED
    speeds: tuple[ShapeSpeed, ...] = ()
    cost: Cost = Cost()
    prompt_hash: str | None = None
    """Of the whole text that the model was told first."""
    ablation: str = ""
    """Prompt and tools in words; empty in lines from before they were recorded."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What there is one attempt of in a run."""
        return self.task, self.target, self.sample

    @property
    def compiled(self) -> bool:
        """Whether the kernel could be run."""
        return self.stage in (Stage.WRONG, Stage.RIGHT)

    @property
    def right(self) -> bool:
        """Whether it is right at the dev shapes, and nothing speaks against it at the perf ones."""
        return self.stage is Stage.RIGHT

    @property
    def claimed(self) -> tuple[ShapeSpeed, ...]:
        """The speeds that count: those of a kernel that is right at the perf shapes."""
        return self.speeds if self.right and self.proof is Proof.RIGHT else ()

    @property
    def speedup(self) -> float | None:
        """The geometric mean over shapes; None where no speed counts or a baseline is missing."""
        found = [speed.speedup for speed in self.claimed]
        known = [s for s in found if s is not None]
        if not known or len(known) < len(found):
            return None
        return math.exp(sum(map(math.log, known)) / len(known))

    @property
    def is_past_bound(self) -> bool:
        """Whether it is faster than any kernel can be: an error of the bound or of the model."""
        return any(speed.latency_ns < speed.bound_ns for speed in self.speeds)

    @property
    def percent_of_bound(self) -> float | None:
        """The geometric mean over shapes of the speeds that count."""
        found = [speed.percent_of_bound for speed in self.claimed]
        return math.exp(sum(map(math.log, found)) / len(found)) if found else None
