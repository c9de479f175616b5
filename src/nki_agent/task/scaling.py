"""Settles the scales of the big, tiny and low trials of a task.

Law: each takes the strongest scale that the stand-in for an honest kernel with float32 inside
survives with room: a kernel that sums in another order may err some times as much where values
cancel. What they are for shows as NaN, infinity or a factor, so their tolerance is made up to ten
times as wide where either stand-in needs it. A kernel that keeps scores in a narrow dtype may still
lose there.

Offset and spikes of the big family go to row operations, and there to the inputs that the reference
ignores a shift of, or passes through: softmax, layer norm, log-sum-exp. A missing row maximum
overflows there, and so does a stand-in for it. Where products come first, single inputs, weights or
gains are large instead (decision 0012).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import seed_for
from nki_agent.task.conditioning import HONEST_SHARE, SLACKS, is_narrow, need_of, slack_for
from nki_agent.task.family import (
    BIG_CHOOSING,
    BIG_ELEMENTWISE,
    BIG_GRID,
    BIG_LADDER,
    BIG_LOUD,
    BIG_OUTLYING,
    BIG_SHIFTED,
    BIG_SPIKED,
    BIG_WEIGHED,
    FAR_EXACT,
    FAR_ORDERED,
    LEANS,
    LOW_LADDER,
    OUTLIER_SLACK,
    STANDARD_SCALE,
    SUNK,
    TINY_LADDER,
    TINY_ZEROED,
    Family,
    FamilyScale,
)
from nki_agent.task.peaks import OVERFLOWS_AT, UNDERFLOWS_AT, leads, list_draws, sinks
from nki_agent.task.recipe import SCALE_HIGH, SCALE_LOW
from nki_agent.task.reference import Precision, Reach, WatchedReference
from nki_agent.task.tolerance import ToleranceClass
from nki_agent.task.trial import round_results
from nki_agent.task.trying import NUM_DRAWS, Calibration, Pair, is_calm, is_finite, worst

Array = NDArray[Any]
Rungs = tuple[FamilyScale, ...]
"""Scales of one kind, from the strongest down."""

CANCELLING_SLACK = 5.0
"""What limits are widened by on tiny values where a plain kernel takes a difference."""
LOW_DRAWS = 3
"""So many of a trial's draws must have a row far below zero, so that hardly a trial has none."""


def settle_families(state: Calibration) -> None:
    """Set the scales of the task's shape set."""
    tiny = () if state.orders else TINY_ZEROED
    scales = {
        Family.BIG: _settle_family(
            state, Family.BIG, (*_list_outlying(state), *BIG_LADDER), factor=SCALE_HIGH
        ),
        Family.TINY: _settle_family(state, Family.TINY, (*tiny, *TINY_LADDER), factor=SCALE_LOW),
    }
    if not scales[Family.BIG].sinks and (low := _find_low(state)) is not None:
        scales[Family.LOW] = low
    state.shapes = replace(state.shapes, scales=scales, sampler=state.sampler)


def _find_low(state: Calibration) -> FamilyScale | None:
    """The mildest lean by which enough draws have a row of scores far below zero."""
    reference = state.shapes.reference
    is_shiftable = any(source.is_shiftable for source in state.sampler.sources)
    if not (state.weighs and is_shiftable and isinstance(reference, WatchedReference)):
        return None
    for scale in LOW_LADDER:
        needed = _try_all(state, scale, factor=SCALE_HIGH)
        if needed > SLACKS[-1]:
            return None
        draws = list_draws(_drawing(state, scale), reference, seed_for(state.seed, "low"))
        if sum(sinks(reach) for _, reach in draws) >= LOW_DRAWS:
            return replace(scale, slack=slack_for(needed))
    return None


def _drawing(state: Calibration, scale: FamilyScale) -> Callable[[int], dict[str, Array]]:
    return lambda seed: state.sampler.draw(seed, scale)


def _try_all(state: Calibration, scale: FamilyScale, *, factor: float) -> float:
    """How many times as wide limits must be at this scale for the stand-ins that differ."""
    draws = _Draws(state=state, scale=scale, factor=factor)
    precisions = [Precision.SINGLE, *([Precision.OWN] if is_narrow(state.shapes) else [])]
    return max(_try_scale(state, draws, precision) for precision in precisions)


def _list_outlying(state: Calibration) -> Rungs:
    """The outliers that the task's operations call for, from the most telling ones down."""
    sources = state.sampler.sources
    rungs: list[FamilyScale] = []
    if not state.has_matmul and any(source.is_shiftable for source in sources):
        rungs += [*BIG_SPIKED, BIG_SHIFTED]
    # What is rounded to 16 bits between two products turns nearly equal peaks around.
    if state.weighs and not state.picks and not is_narrow(state.shapes):
        rungs.append(BIG_WEIGHED)
    if state.weighs and any(source.is_gain for source in sources):
        rungs += BIG_LOUD
    if state.weighs and state.picks:
        rungs += BIG_CHOOSING
    # Among outliers, what an order decides hangs on roundings.
    if state.weighs or (state.reduces and not state.picks):
        rungs += BIG_OUTLYING
    if not (state.reduces or state.has_matmul or state.orders):
        rungs += BIG_ELEMENTWISE
    grid = BIG_GRID if state.compares else 0.0
    return tuple(replace(rung, grid=grid) for rung in rungs)


def _settle_family(
    state: Calibration, family: Family, rungs: Rungs, *, factor: float
) -> FamilyScale:
    found = _find_rung(state, rungs, factor=factor)
    if found is None:
        state.notes.append(
            f"{family} trials are standard ones: the reference survives no other scale"
        )
        return STANDARD_SCALE
    rung, needed = found
    if rung.factor != rungs[0].factor and not rung.has_outliers:
        state.notes.append(
            f"{family} trials scale inputs by {rung.factor:g}: the reference does not survive "
            f"{rungs[0].factor:g}"
        )
    slack = max(rung.slack, slack_for(needed))
    rung = _sink(state, rung, factor=factor, slack=slack)
    if family is Family.TINY and state.cancels:
        slack = max(slack, CANCELLING_SLACK)
    if rung.outlier and state.has_matmul:
        slack = max(slack, OUTLIER_SLACK)
    return _look_at_draws(state, replace(rung, slack=slack))


def _look_at_draws(state: Calibration, scale: FamilyScale) -> FamilyScale:
    """Mark what some draws tell of a row's largest score, and others don't."""
    reference = state.shapes.reference
    if not (state.weighs and scale.has_outliers and isinstance(reference, WatchedReference)):
        return scale
    found = scale
    draws = list_draws(_drawing(state, scale), reference, seed_for(state.seed, "draws"))
    for _, reach in draws:
        found = replace(found, leads=found.leads or leads(reach), sinks=found.sinks or sinks(reach))
        if found.leads and found.sinks:
            break
    return found


def _sink(state: Calibration, rung: FamilyScale, *, factor: float, slack: float) -> FamilyScale:
    """The same with rows far below zero, where honest kernels need no wider limits for it."""
    if rung.offset:
        tries = [replace(rung, sunk=SUNK)]
        # So far from zero, values of a row become equal where nothing keeps them apart, and in 16
        # bits all do: then none has a place of its own.
        has_places = state.orders and any(o.dtype.is_integer for o in state.shapes.results)
        keeps_places = state.sampler.is_distinct and not is_narrow(state.shapes)
        is_exact = state.tolerance in {ToleranceClass.EX, ToleranceClass.IX}
        if is_exact and (keeps_places or not has_places):
            far = FAR_ORDERED if state.orders else FAR_EXACT
            tries.insert(0, replace(rung, offset=far, sunk=-far))
    elif rung.outlier and any(source.is_shiftable for source in state.sampler.sources):
        tries = [replace(rung, lean=lean) for lean in LEANS]
    else:
        return rung
    for low in tries:
        needed = _try_all(state, low, factor=factor)
        if slack_for(needed) > slack or needed > SLACKS[-1]:
            if low.lean:
                return rung
            continue
        if not low.lean or _reaches_down(state, low):
            return low
    return rung


def _reaches_down(state: Calibration, scale: FamilyScale) -> bool:
    """Whether some rows are far below zero in every draw, be it of the smallest values."""
    draws = _Draws(state=state, scale=scale, factor=SCALE_LOW)
    for number in range(NUM_DRAWS):
        draws.get(number)
    return draws.find_reach().lowest_row < UNDERFLOWS_AT


def _find_rung(
    state: Calibration, rungs: Rungs, *, factor: float
) -> tuple[FamilyScale, float] | None:
    """The first rung that float32 survives, and what it needs.

    Loud gains must make `exp` overflow, and what is rounded to 16 bits keep its limits: milder ones
    may do as well. Where other outliers cost it its limits, smaller ones at the same scale may not.
    """
    spare: tuple[FamilyScale, float] | None = None
    for rung in rungs:
        if spare and not (rung.outlier and rung.factor == spare[0].factor):
            continue
        draws = _Draws(state=state, scale=rung, factor=factor)
        needed = _try_scale(state, draws, Precision.SINGLE)
        if needed > SLACKS[-1]:
            continue
        own = _try_scale(state, draws, Precision.OWN) if is_narrow(state.shapes) else 0.0
        is_lost = bool(rung.outlier) and own > OUTLIER_SLACK >= needed
        needed = max(needed, own)
        is_telling = (
            not (state.weighs and rung.outlier) or draws.find_reach().highest > OVERFLOWS_AT
        )
        if is_telling and needed <= OUTLIER_SLACK:
            return rung, needed
        if spare or (rung.gain and not (is_telling and needed <= SLACKS[-1])):
            continue
        if not (rung.gain or is_lost):
            return rung, needed
        spare = rung, needed
    return spare


@dataclass(slots=True, kw_only=True)
class _Draws:
    """Inputs of one scale with what is expected on them: both stand-ins are tried on the same."""

    state: Calibration
    scale: FamilyScale
    factor: float
    made: list[Pair] = field(default_factory=list)

    def get(self, number: int) -> Pair:
        """Inputs and outputs; numbers are asked for in order."""
        if number == len(self.made):
            name = f"scale {self.scale.factor:g} {number}"
            inputs = self.state.draw(self.scale, name=name, factor=self.factor)
            self.made.append((inputs, self.state.run(inputs, Precision.DOUBLE)))
        return self.made[number]

    def find_reach(self) -> Reach:
        """How far the arguments of exponentials go in every draw."""
        reference = self.state.shapes.reference
        if not isinstance(reference, WatchedReference):
            return Reach(np.inf, 0.0, 0.0)
        found = [reference.find_reach(inputs) for inputs, _ in self.made]
        return Reach(
            min(r.highest for r in found),
            max(r.lowest_row for r in found),
            min(r.lead for r in found),
        )


def _try_scale(state: Calibration, draws: _Draws, precision: Precision) -> float:
    """How many times as wide limits must be at this scale; infinite where the reference breaks."""
    most = 0.0
    for number in range(NUM_DRAWS):
        try:
            inputs, wanted = draws.get(number)
            pair = wanted, state.run(inputs, precision)
        except TaskError:
            return np.inf
        if not all(is_finite(outputs) for outputs in pair):
            return np.inf
        most = max(most, _need(state, pair, precision))
        is_enough = precision is Precision.SINGLE and is_calm(state, most)
        if is_enough or most > SLACKS[-1]:
            break
    return most


def _need(state: Calibration, pair: Pair, precision: Precision) -> float:
    """The share of the limits that honest kernels need: one rounding, and arithmetic with room."""
    share = worst(state, state.tolerance, [pair])
    if precision is Precision.OWN:
        return share / HONEST_SHARE
    wanted, _ = pair
    rounded = worst(state, state.tolerance, [(wanted, round_results(state.shapes, wanted))])
    return need_of(rounded, share)
