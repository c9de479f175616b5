"""What the judge says: how far a kernel came, its errors, and how fast the model thinks it is.

Law: a kernel's failure is data in a Verdict; our own failure is an exception and never becomes one.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.surface import Surface

SCHEMA = 3


class Stage(StrEnum):
    """The ladder, worst first. A kernel is *compiled* when it is `wrong` or `right`."""

    CHEAT = "cheat"
    REFUSED = "refused"
    UNTRACEABLE = "untraceable"
    UNFIT = "unfit"
    WRONG = "wrong"
    RIGHT = "right"


class OutputError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of one output in one trial; `ratio` is its share of the allowed error."""

    name: str
    right: bool
    ratio: float
    rel_l2: float | None
    max_abs: float | None
    detail: str = ""
    picture: str = ""
    """The output's tile around the worst element, in lines, where it is wrong."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run on one secret seed, at one of the task's shape sets."""

    shapes: str
    number: int
    family: str
    seed: int
    outputs: tuple[OutputError, ...]

    @property
    def right(self) -> bool:
        """Whether every output is."""
        return all(o.right for o in self.outputs)


class Hashes(msgspec.Struct, frozen=True, kw_only=True):
    """What was judged, by content."""

    kernel: str
    task: str
    program: str | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's answer for one kernel, one task and one target."""

    schema: int = SCHEMA
    stage: Stage
    task: str
    target: str
    diagnostics: tuple[Diagnostic, ...]
    trials: tuple[Trial, ...]
    hashes: Hashes
    root_seed: int
    tool_version: str
    task_notes: tuple[str, ...] = ()
    """What was decided while the task was loaded, as it could be wrong."""
    surface: Surface = Surface.NKI
    """What the kernel was allowed to use."""
    failed_at: str | None = None
    """The shapes at which it is not right, in words, where they are not those of the task's dev."""
    num_instructions: int | None = None
    speed_shapes: str | None = None
    """The name of the shape set that the speed is for; there only for a right kernel."""
    latency_ns: float | None = None
    """The cost model's estimate at those shapes."""
    bound_ns: float | None = None
    """The least time that any kernel for this task needs on this chip."""
    bound_by: str | None = None
    """What the bound comes from: bytes, matmul or passes."""
    percent_of_bound: float | None = None
    limited_by: str | None = None
    """What keeps this kernel from being faster."""
    utilisation: dict[str, float] = {}
    """Share of the latency that each engine is busy, 0 to 1."""
    wall_ms: float

    @property
    def compiled(self) -> bool:
        """Whether the kernel could be run at all."""
        return self.stage in (Stage.WRONG, Stage.RIGHT)

    @property
    def right(self) -> bool:
        """Whether it is right."""
        return self.stage is Stage.RIGHT
