"""The families of trials: standard values, big ones and tiny ones.

Standard values alone let shortcuts pass: a softmax without its row maximum overflows only on big
values, a missing epsilon shows only on tiny ones. A family scales the forward inputs that have a
scale; weights, masks, probabilities and integers stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Family(StrEnum):
    """What kind of values a trial has."""

    STANDARD = "standard"
    BIG = "big"
    TINY = "tiny"


TRIAL_FAMILIES = (Family.STANDARD, Family.STANDARD, Family.STANDARD, Family.BIG, Family.TINY)
"""The five trials of a verdict, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyScale:
    """How a family changes the forward inputs: `factor` times the value, then `offset` more.

    Offset and spikes are added only to inputs that the reference ignores a shift of; where their
    standard deviation is under 1, that share of them. A spike is one element of a row, up or down;
    one row in `SPIKED_ROWS` has one. `slack` widens the tolerance where the reference itself
    is badly conditioned on such values.
    """

    factor: float = 1.0
    offset: float = 0.0
    spike: float = 0.0
    slack: float = 1.0


SPIKED_ROWS = 4
"""A row in so many has a spike; the others still show what a peaked row hides."""
STANDARD_SCALE = FamilyScale()
# From the strongest down: the first that the reference and an honest kernel survive is taken.
# An offset alone lets through what stands near the maximum without being it: the mean of the row,
# the maximum of a part, a constant. e^88 overflows; the spike stands out by more than the rest.
BIG_SPIKED = FamilyScale(factor=16.0, offset=60.0, spike=200.0)
BIG_SHIFTED = FamilyScale(factor=16.0, offset=60.0)
BIG_LADDER = (
    FamilyScale(factor=8.0),
    FamilyScale(factor=4.0),
    FamilyScale(factor=2.0),
)
TINY_LADDER = (
    FamilyScale(factor=1e-3),
    FamilyScale(factor=1e-2),
    FamilyScale(factor=1e-1),
)
# For tasks too large to try the reference on: mild enough for nearly all.
BIG_UNTRIED = FamilyScale(factor=4.0, slack=5.0)
TINY_UNTRIED = FamilyScale(factor=1e-2)
