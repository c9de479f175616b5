"""What a freshly loaded task is tried with: draws, runs, shares of the limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.seeds import seed_for
from nki_agent.task.comparison import compare
from nki_agent.task.family import STANDARD_SCALE, FamilyScale
from nki_agent.task.reference import Precision
from nki_agent.task.sampler import UserSampler
from nki_agent.task.task import Output, ShapeSet
from nki_agent.task.tolerance import ToleranceClass, tolerance_for
from nki_agent.task.trial import arrange, stand_in

Array = NDArray[Any]

CALM_SHARE = 0.1
"""A stand-in that uses up less on the first draw needs no further one."""
NUM_DRAWS = 3
"""Draws that a stand-in must pass where it is not calm: routing and saturation vary by the draw."""


Pair = tuple[dict[str, Array], dict[str, Array]]


@dataclass(slots=True)
class Calibration:
    """The task while its judging is settled. `shapes` changes as its sampler and scales do."""

    shapes: ShapeSet
    sampler: UserSampler
    tolerance: ToleranceClass
    is_fixed: bool
    """Whether the file itself sets the tolerance."""
    seed: int
    notes: list[str]
    has_matmul: bool = False
    reduces: bool = True
    """Whether an output element comes from several elements of an input, which outliers show."""
    compares: bool = False
    """Whether values are compared, as with a threshold."""
    orders: bool = False
    """Whether equal values in a row have no one right answer."""
    weighs: bool = False
    """Whether exponentials of products are summed up."""
    picks: bool = False
    """Whether an order of products decides what the outputs are made of."""
    cancels: bool = False
    """Whether an honest kernel loses digits on tiny values."""
    unread: frozenset[str] = frozenset()
    """Arguments known to be unread, which need no try."""

    def draw(
        self, scale: FamilyScale = STANDARD_SCALE, *, name: str = "a", factor: float | None = None
    ) -> dict[str, Array]:
        """Inputs for one try."""
        return self.sampler.draw(seed_for(self.seed, name), scale, factor=factor)

    def run(self, inputs: Mapping[str, Array], precision: Precision) -> dict[str, Array]:
        """One run of the reference: in float64 as it is compared, else as a kernel stores it."""
        if precision is Precision.DOUBLE:
            return arrange(self.shapes, self.shapes.reference.run(inputs, precision=precision))
        return stand_in(self.shapes, inputs, precision)

    def run_pair(self, inputs: Mapping[str, Array], precision: Precision) -> Pair:
        """What is expected, and what the stand-in gives."""
        return self.run(inputs, Precision.DOUBLE), self.run(inputs, precision)


def worst(state: Calibration, name: ToleranceClass, pairs: list[Pair]) -> float:
    """The largest error of any output as a share of a class's limits."""
    return max(ratio for pair in pairs for ratio in _ratios(state.shapes, name, pair).values())


def _ratios(shapes: ShapeSet, name: ToleranceClass, pair: Pair) -> dict[str, float]:
    """The error of each output as a share of a class's limits."""
    return {o.name: ratio_of(o, name, pair) for o in shapes.results}


def ratio_of(output: Output, name: ToleranceClass, pair: Pair) -> float:
    """The error of one output as a share of a class's limits."""
    wanted, own = pair
    return compare(
        wanted[output.name],
        own[output.name],
        dtype=output.dtype,
        tolerance=tolerance_for(name, output.dtype),
        context=None,
    ).ratio


def is_calm(state: Calibration, share: float) -> bool:
    """Whether further draws would show nothing new; equal integers may yet meet a tie."""
    is_counted = any(output.dtype.is_integer for output in state.shapes.results)
    is_exact = state.tolerance is ToleranceClass.EX
    return share <= CALM_SHARE and (is_exact or not is_counted)


def is_finite(outputs: Mapping[str, Array]) -> bool:
    """Whether every real of every output is."""
    return all(
        a.dtype.kind in "iub" or bool(np.isfinite(a.astype(np.float64, copy=False)).all())
        for a in outputs.values()
    )
