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
    LOW = "low"
    """Rows of scores far below zero, for tasks whose big trials have none: a sixth trial."""


TRIAL_FAMILIES = (Family.STANDARD, Family.STANDARD, Family.STANDARD, Family.BIG, Family.TINY)
"""The five trials of a verdict, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyScale:
    """How a family changes the forward inputs: `factor` times the value, then `offset` more.

    Offset and spikes are added only to inputs that the reference ignores a shift of; where their
    standard deviation is under 1, that share of them. A spike is one element of a row, up or down
    (outlying.py). Without spikes, inputs have outliers at such places: `outlier` times their
    standard deviation after scaling; and matrices of weights ones that make `weight_outlier` times
    as much of a product. `slack` widens the tolerance where the reference itself is badly
    conditioned on such values.
    """

    factor: float = 1.0
    offset: float = 0.0
    sunk: float = 0.0
    """Half of the rows have this offset in place of the other: all of their values are far below
    zero, an outlier that goes up aside. What starts a maximum at zero, or pads with it, is wrong
    there."""
    spike: float = 0.0
    outlier: float = 0.0
    weight_outlier: float = 0.0
    gain: float = 0.0
    """The gains of the first and the last feature are so many times as large: rows whose outlier
    stands there have scores far above the others, also where a norm takes the inputs' scale."""
    has_zero_row: bool = False
    """One row is zero in every input: what is divided by its size shows whether an epsilon is
    there."""
    has_zero_divisors: bool = False
    """That row is zero in inputs that are never negative as well, such as squares."""
    with_biases: bool = False
    """Parameters that are added, not multiplied, have the factor too."""
    grid: float = 0.0
    """Inputs are rounded to multiples of it: what is compared is then equal at times."""
    lean: float = 0.0
    """Inputs, weights and biases whose shift only moves the rows of scores that products make have
    a mean so many times as far below zero as they spread: some of those rows are far below zero."""
    leads: bool = False
    """Of some draws one is taken in which either half of a row of scores has its largest by far: a
    maximum over the other half is no substitute (peaks.py)."""
    sinks: bool = False
    """Of some draws one is taken in which all scores of a row are far below zero."""
    slack: float = 1.0

    @property
    def has_outliers(self) -> bool:
        """Whether single elements stand far out."""
        return bool(self.spike or self.outlier)


STANDARD_SCALE = FamilyScale()
OUTLIER_SLACK = 5.0
"""At least so wide are the limits where products have outliers: two of them are nearly equal in a
few rows of some draws, and what the family is for shows as infinity or NaN."""
# From the strongest down: the first that the reference and an honest kernel survive is taken.
# An offset alone lets through what stands near the maximum without being it: the mean of the row,
# the maximum of a part, a constant. e^88 overflows; the spike stands out by more than the rest.
BIG_SPIKED = (
    FamilyScale(factor=16.0, offset=60.0, spike=200.0),
    # What cancels in a row with a spike errs by a rounding of its terms, or not at all.
    FamilyScale(factor=2.0, offset=60.0, spike=200.0, slack=OUTLIER_SLACK),
)
BIG_SHIFTED = FamilyScale(factor=16.0, offset=60.0)
# So far below that e^88 is not reached by any value of a row; bfloat16 has a unit there.
SUNK = -250.0
# What only copies and selects loses nothing so far from zero, to either side: paddings like -1000
# or 65504 are found out. Nearer where an order is asked for: values of a row stay distinct.
FAR_EXACT = 1e5
FAR_ORDERED = 2e4
LEANS = (2.0, 4.0, 8.0, 16.0, 32.0)
# Where a shift changes the result, as that of a query or a key, outliers stand out by a factor.
OUTLIER = 64.0
# Inputs alone can't say which column of a product is the largest; nor can they where they are
# normalised first.
BIG_WEIGHED = FamilyScale(factor=8.0, outlier=OUTLIER, weight_outlier=OUTLIER)
# A norm before the products takes the scale of inputs away, but not that of its own gains.
BIG_LOUD = (
    *(FamilyScale(factor=8.0, outlier=OUTLIER, gain=gain) for gain in (512.0, 128.0, 32.0, 8.0)),
    # Smaller outliers weigh less where they are what the weights of a row are given to.
    *(FamilyScale(factor=8.0, outlier=OUTLIER / 4, gain=gain) for gain in (32.0, 16.0, 8.0, 4.0)),
)
BIG_OUTLYING = (
    FamilyScale(factor=8.0, outlier=OUTLIER),
    FamilyScale(factor=4.0, outlier=OUTLIER),
    FamilyScale(factor=2.0, outlier=OUTLIER),
    FamilyScale(factor=8.0, outlier=OUTLIER / 4),
)
# A choice among few experts: their scores differ by more than e^88 only so.
BIG_CHOOSING = (
    FamilyScale(factor=8.0, outlier=16 * OUTLIER),
    FamilyScale(factor=8.0, outlier=4 * OUTLIER),
)
# Where each element is for itself: what writes out `exp` overflows there.
BIG_ELEMENTWISE = (
    FamilyScale(factor=8.0, outlier=OUTLIER / 2),
    FamilyScale(factor=8.0, outlier=OUTLIER / 4),
)
BIG_LADDER = (
    FamilyScale(factor=8.0),
    FamilyScale(factor=4.0),
    FamilyScale(factor=2.0),
)
OFF_EDGE = 0.25
"""Size of an outlier off the edges of an array over that of one there."""
TINY_ZEROED = (
    FamilyScale(factor=1e-3, has_zero_row=True, has_zero_divisors=True, with_biases=True),
    FamilyScale(factor=1e-3, has_zero_row=True, with_biases=True),
    FamilyScale(factor=1e-3, has_zero_row=True),
)
BIG_GRID = 1.0
TINY_LADDER = (
    FamilyScale(factor=1e-3),
    FamilyScale(factor=1e-2),
    FamilyScale(factor=1e-1),
)
# Where outliers of weights go to both sides, no row is below zero among them.
LOW_LADDER = tuple(FamilyScale(factor=8.0, lean=lean, sinks=True) for lean in LEANS)
# For tasks too large to try the reference on: mild enough for nearly all.
BIG_UNTRIED = FamilyScale(factor=4.0, slack=5.0)
TINY_UNTRIED = FamilyScale(factor=1e-2)
