"""What a lint looks at, and what it finds.

The figures are those of the judge's own comparison: a share of the limits, 1 being just right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nki_agent.task.comparison import compare, surely_misses
from nki_agent.task.task import Output, ShapeSet, Task
from nki_agent.task.tolerance import Gate
from nki_agent.task.trial import Trial

Array = NDArray[Any]
Arrays = Mapping[str, Array]

FAILS_BY = 10.0
"""What is no kernel must miss the limits by this factor."""
MATTERS_BY = 2.0
"""Another draw of any input must change some output by this much of the limits."""


class Check(StrEnum):
    """What is looked at."""

    REPEATS = "repeats"
    FINITE = "finite"
    NOISE = "noise"
    CONSTANT = "constant"
    STALE = "stale"
    COPY = "copy"
    INPUT = "input"
    SLICE = "slice"
    SATURATED = "saturated"
    TIES = "ties"
    HIDDEN = "hidden"
    MUTATES = "mutates"
    SHAPES = "shapes"


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a task is unfit: what, the figure found, the one allowed, what to do."""

    check: Check
    what: str
    found: str
    allowed: str
    hint: str

    def __str__(self) -> str:
        """Two lines for people."""
        return (
            f"{self.check.value}: {self.what}: {self.found}, allowed is {self.allowed}\n"
            f"  hint: {self.hint}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A task at its dev shapes, with its trials drawn and its reference run on them."""

    task: Task
    shapes: ShapeSet
    trials: tuple[Trial, ...]
    inputs: tuple[Arrays, ...]
    wanted: tuple[Arrays, ...]

    @property
    def judged(self) -> Iterator[Output]:
        """The outputs that an input reaches."""
        return (o for o in self.shapes.results if not o.is_constant)

    def ratio(self, output: Output, actual: Array, *, number: int = 0) -> float:
        """The error of what stands for a kernel's output, as a share of the limits."""
        return compare(
            self.wanted[number][output.name],
            actual,
            dtype=output.dtype,
            tolerance=self.trials[number].tolerance(self.task, output),
            context=None,
        ).ratio

    def misses(self, output: Output, actual: Array, *, by: float, number: int = 0) -> bool:
        """Whether the margin is at least `by`."""
        is_sure = self.misses_surely(output, actual, by=by, number=number)
        return is_sure or self.margin(output, actual, number=number) >= by

    def misses_surely(self, output: Output, actual: Array, *, by: float, number: int = 0) -> bool:
        """Whether it is clearly over `by`; False where only the exact margin can tell."""
        return surely_misses(
            self.wanted[number][output.name],
            actual,
            tolerance=self.trials[number].tolerance(self.task, output),
            by=by,
        )

    def margin(self, output: Output, actual: Array, *, number: int = 0) -> float:
        """How far it fails; for exact outputs, the elements that differ, of ten."""
        if self.trials[number].tolerance(self.task, output).gate is not Gate.EXACT:
            return self.ratio(output, actual, number=number)
        stored = self.wanted[number][output.name].astype(output.dtype.numpy_dtype)
        differing = float(np.count_nonzero(stored != actual))
        return differing * max(1.0, FAILS_BY / output.num_elems)
