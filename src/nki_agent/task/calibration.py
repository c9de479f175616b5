"""Tries a freshly loaded reference on drawn inputs, and settles how a kernel for it is judged.

Law: an honest kernel in the task's own dtype passes. Two stand-ins for it use up at most half of
what is allowed, or the limits are widened and a note says so: the *own* one is the reference in the
task's dtype, rounded after each operation; the *single* one has float32 inside and is rounded at
both ends, as the engines do it.

- The tolerance class is settled with the own one on standard values; where no class holds it, with
  the single one.
- Big and tiny trials take the strongest scale that the single one survives with room: a kernel that
  sums in another order may err some times as much where values cancel. What they are for shows as
  NaN, infinity or a factor, so their tolerance is made up to ten times as wide where either needs
  it. A kernel that keeps scores in a narrow dtype may still lose there.
- Offset and spikes of the big family go to row operations, and there to the inputs that the
  reference ignores a shift of, or passes through: softmax, layer norm, log-sum-exp. A missing row
  maximum overflows there, and so does a stand-in for it. Where products come first, single inputs,
  weights or gains are large instead (decision 0012).
- Tasks too large to try are given mild scales.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError, UnfitTaskError
from nki_agent.base.seeds import seed_for
from nki_agent.task.comparison import compare, surely_misses
from nki_agent.task.conditioning import HONEST_SHARE, SLACKS, is_narrow, need_of, slack_for
from nki_agent.task.family import (
    BIG_CHOOSING,
    BIG_GRID,
    BIG_LADDER,
    BIG_LOUD,
    BIG_OUTLYING,
    BIG_SHIFTED,
    BIG_SPIKED,
    BIG_UNTRIED,
    BIG_WEIGHED,
    LEANS,
    OUTLIER_SLACK,
    STANDARD_SCALE,
    SUNK,
    SUNK_EXACT,
    TINY_LADDER,
    TINY_UNTRIED,
    TINY_ZEROED,
    Family,
    FamilyScale,
)
from nki_agent.task.peaks import OVERFLOWS_AT, UNDERFLOWS_AT, leads, list_draws, sinks
from nki_agent.task.recipe import SCALE_HIGH, SCALE_LOW, Recipe, Variation
from nki_agent.task.reference import Precision, Reach, WatchedReference
from nki_agent.task.sampler import Origin, Source, UserSampler
from nki_agent.task.shifting import find_free_axes, ignores_shift
from nki_agent.task.task import Output, ShapeSet, TensorKind
from nki_agent.task.tolerance import ToleranceClass, find_wider, tolerance_for
from nki_agent.task.trial import arrange, round_results, stand_in

Array = NDArray[Any]

CALM_SHARE = 0.1
"""A stand-in that uses up less on the first draw needs no further one."""
NUM_DRAWS = 3
"""Draws that a stand-in must pass where it is not calm: routing and saturation vary by the draw."""
ELEMS_MAX = 1 << 23
"""Elements of all tensors together up to which a task is tried out while loading."""
FLOPS_MAX = 4_000_000_000
"""Matmul FLOPs up to which a task is tried out while loading: some seconds in float64."""
CANCELLING = frozenset({"asinh", "atanh", "elu", "expm1", "log1p", "sinh"})
"""Functions that the chip lacks: a plain kernel takes a difference (`exp(x) - 1`), which loses the
last digits near zero, where the reference does not."""
CANCELLING_SLACK = 5.0
DEPENDS_MAX = 16
"""Arguments whose influence is tried one by one; of more, the forward inputs only."""
_VARIATIONS = {
    Variation.FULL: "",
    Variation.SHRINK: "larger inputs leave the reference's domain: trials only shrink them",
    Variation.NONE: "other scales break the reference: inputs are as their function gives them",
}
_DEPENDS_RATIO = 2.0


Pair = tuple[dict[str, Array], dict[str, Array]]
Rungs = tuple[FamilyScale, ...]
"""Scales of one kind, from the strongest down."""


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


def is_heavy(shapes: ShapeSet) -> bool:
    """Whether the task is too large to be tried out while loading."""
    elems = sum(a.num_elems for a in shapes.tensors) + sum(o.num_elems for o in shapes.outputs)
    return elems > ELEMS_MAX or shapes.work.matmul_flops > FLOPS_MAX


def calibrate(state: Calibration) -> Calibration:
    """Settle variation, tolerance class and family scales; add notes.

    Raises:
        TaskError: the reference is too badly conditioned to judge by, or ignores its inputs.
    """
    with np.errstate(all="ignore"):
        _settle_variation(state)
        inputs = state.draw()
        wanted = _settle_tolerance(state, inputs)
        if is_heavy(state.shapes):
            scales = {Family.BIG: BIG_UNTRIED, Family.TINY: TINY_UNTRIED}
            state.shapes = replace(state.shapes, scales=scales, sampler=state.sampler)
            state.notes.append("the task is large: big and tiny trials have mild, untried scales")
            return state
        if state.weighs or not state.has_matmul:
            _find_shiftable(state, inputs, wanted)
        _settle_families(state)
        _note_dependence(state, inputs, wanted)
        return state


def _settle_variation(state: Calibration) -> None:
    """The widest variation of the inputs that leaves the reference finite."""
    problem: TaskError | None = None
    for sampler, note in _list_samplers(state.sampler):
        state.sampler = sampler
        try:
            is_safe = all(
                is_finite(state.run(inputs, Precision.DOUBLE)) for inputs in _draw_extremes(state)
            )
        except TaskError as error:
            problem = error
            continue
        if is_safe:
            state.notes += [note] if note else []
            return
    raise problem or UnfitTaskError(
        "the reference gives NaN or infinite values on other inputs of the same kind",
        check="finite",
        hint="let the inputs function draw values inside the reference's domain",
    )


def _draw_extremes(state: Calibration) -> Iterator[dict[str, Array]]:
    """Inputs at both ends of the variation; a few more where a redraw may meet a bad structure."""
    yield state.draw(name="high", factor=SCALE_HIGH)
    yield state.draw(name="low", factor=SCALE_LOW)
    if any(_keep_structure(source) is not source for source in state.sampler.sources):
        for number in range(NUM_DRAWS):
            yield state.draw(name=f"structure {number}")


def _list_samplers(sampler: UserSampler) -> Iterator[tuple[UserSampler, str]]:
    """From full variation down to the values of the file, each with the note that it needs."""
    steady = tuple(_keep_structure(source) for source in sampler.sources)
    kept = [s.name for s, t in zip(sampler.sources, steady, strict=True) if s is not t]
    for variation, note in _VARIATIONS.items():
        yield replace(sampler, variation=variation), note
        if kept:
            fixed = f"other values of {_quote(kept)} break the reference: they stay as in the file"
            both = f"{fixed}; {note}" if note else fixed
            yield replace(sampler, variation=variation, sources=steady), both


def _keep_structure(source: Source) -> Source:
    if source.origin is Origin.DRAWN and source.is_structured:
        return replace(source, origin=Origin.GIVEN)
    return source


def _settle_tolerance(state: Calibration, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Settle the class on standard values; give what is expected on `inputs`."""
    first = state.tolerance
    wanted = state.run(inputs, Precision.DOUBLE)
    pairs = [(wanted, state.run(inputs, Precision.OWN))]
    share = _worst(state, first, pairs)
    if not _is_calm(state, share):
        pairs += _draw_pairs(state, Precision.OWN)
        share = _worst(state, first, pairs)
    if share <= HONEST_SHARE:
        return wanted
    if state.is_fixed:
        state.notes.append(
            f"tolerance {first} is tight: the reference in its own dtype uses {share:.2g} of it"
        )
        return wanted
    found = _find_class(state, pairs)
    inside = ""
    if found is None:
        inside = " with float32 inside"
        pairs = [(wanted, state.run(inputs, Precision.SINGLE))]
        found = _find_class(state, pairs + _draw_pairs(state, Precision.SINGLE))
    if found is None:
        raise UnfitTaskError(
            "the reference is too sensitive to judge by: between its own dtype and float64 it "
            f"differs by {share:.2g} of tolerance {first}",
            check="noise",
            hint="use better conditioned inputs, or set TOLERANCE in the task file",
        )
    state.tolerance = found
    if found is not first or inside:
        state.notes.append(
            f"tolerance {found}{inside}: the reference in its own dtype uses {share:.2g} of {first}"
        )
    return wanted


def _draw_pairs(state: Calibration, precision: Precision) -> list[Pair]:
    """Further standard draws."""
    return [
        state.run_pair(state.draw(name=f"again {number}"), precision)
        for number in range(1, NUM_DRAWS)
    ]


def _find_class(state: Calibration, pairs: list[Pair]) -> ToleranceClass | None:
    """The first class from the present one up that the stand-in uses up at most half of."""
    name: ToleranceClass | None = state.tolerance
    while name is not None and _worst(state, name, pairs) > HONEST_SHARE:
        name = find_wider(name)
    return name


def _worst(state: Calibration, name: ToleranceClass, pairs: list[Pair]) -> float:
    return max(ratio for pair in pairs for ratio in _ratios(state.shapes, name, pair).values())


def _ratios(shapes: ShapeSet, name: ToleranceClass, pair: Pair) -> dict[str, float]:
    """The error of each output as a share of a class's limits."""
    return {o.name: _ratio_of(o, name, pair) for o in shapes.results}


def _ratio_of(output: Output, name: ToleranceClass, pair: Pair) -> float:
    wanted, own = pair
    return compare(
        wanted[output.name],
        own[output.name],
        dtype=output.dtype,
        tolerance=tolerance_for(name, output.dtype),
        context=None,
    ).ratio


def _find_shiftable(
    state: Calibration, inputs: Mapping[str, Array], wanted: Mapping[str, Array]
) -> None:
    """Mark the inputs whose shift the reference ignores or passes through.

    Where products are made, also parameters, and only what it ignores: a shift of all values hides
    how they were weighed.
    """
    run = partial(state.run, precision=Precision.DOUBLE)
    is_direct = not state.has_matmul
    sources = []
    for source in state.sampler.sources:
        shiftable = _may_shift(source, is_direct=is_direct) and ignores_shift(
            run, inputs, wanted, name=source.name, passes=is_direct
        )
        axes: tuple[int, ...] = ()
        if shiftable and is_direct:
            axes = find_free_axes(run, inputs, wanted, name=source.name)
        sources.append(replace(source, is_shiftable=shiftable, free_axes=axes))
    state.sampler = state.sampler.with_sources(tuple(sources))


def _may_shift(source: Source, *, is_direct: bool) -> bool:
    if source.kind is TensorKind.INPUT:
        return source.dtype.is_float and source.profile.recipe is Recipe.NORMAL
    return not is_direct and (source.is_weight or source.is_added)


def _settle_families(state: Calibration) -> None:
    tiny = () if state.orders else TINY_ZEROED
    scales = {
        Family.BIG: _settle_family(
            state, Family.BIG, (*_list_outlying(state), *BIG_LADDER), factor=SCALE_HIGH
        ),
        Family.TINY: _settle_family(state, Family.TINY, (*tiny, *TINY_LADDER), factor=SCALE_LOW),
    }
    state.shapes = replace(state.shapes, scales=scales, sampler=state.sampler)


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

    def draw(seed: int) -> dict[str, Array]:
        return state.sampler.draw(seed, scale)

    found = scale
    for _, reach in list_draws(draw, reference, seed_for(state.seed, "draws")):
        found = replace(found, leads=found.leads or leads(reach), sinks=found.sinks or sinks(reach))
        if found.leads and found.sinks:
            break
    return found


def _sink(state: Calibration, rung: FamilyScale, *, factor: float, slack: float) -> FamilyScale:
    """The same with rows far below zero, where honest kernels need no wider limits for it."""
    if rung.offset:
        # So far below, values of a row become equal: their order would be nobody's.
        is_exact = state.tolerance is ToleranceClass.EX and not state.orders
        tries = [replace(rung, sunk=SUNK_EXACT if is_exact else SUNK)]
    elif rung.outlier and any(source.is_shiftable for source in state.sampler.sources):
        tries = [replace(rung, lean=lean) for lean in LEANS]
    else:
        return rung
    precisions = [Precision.SINGLE, *([Precision.OWN] if is_narrow(state.shapes) else [])]
    for low in tries:
        draws = _Draws(state=state, scale=low, factor=factor)
        needed = max(_try_scale(state, draws, precision) for precision in precisions)
        if slack_for(needed) > slack or needed > SLACKS[-1]:
            return rung
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
    worst = 0.0
    for number in range(NUM_DRAWS):
        try:
            inputs, wanted = draws.get(number)
            pair = wanted, state.run(inputs, precision)
        except TaskError:
            return np.inf
        if not all(is_finite(outputs) for outputs in pair):
            return np.inf
        worst = max(worst, _need(state, pair, precision))
        is_calm = precision is Precision.SINGLE and _is_calm(state, worst)
        if is_calm or worst > SLACKS[-1]:
            break
    return worst


def _need(state: Calibration, pair: Pair, precision: Precision) -> float:
    """The share of the limits that honest kernels need: one rounding, and arithmetic with room."""
    share = _worst(state, state.tolerance, [pair])
    if precision is Precision.OWN:
        return share / HONEST_SHARE
    wanted, _ = pair
    rounded = _worst(state, state.tolerance, [(wanted, round_results(state.shapes, wanted))])
    return need_of(rounded, share)


def _is_calm(state: Calibration, share: float) -> bool:
    """Whether further draws would show nothing new; equal integers may yet meet a tie."""
    is_counted = any(output.dtype.is_integer for output in state.shapes.results)
    is_exact = state.tolerance is ToleranceClass.EX
    return share <= CALM_SHARE and (is_exact or not is_counted)


def _note_dependence(
    state: Calibration, inputs: Mapping[str, Array], wanted: dict[str, Array]
) -> None:
    """Note inputs that change nothing; refuse a reference that nothing changes."""
    other = state.draw(name="b")
    stale = _changed(state, wanted, other)
    if not stale:
        raise UnfitTaskError(
            "the outputs do not depend on the inputs",
            check="constant",
            hint="a kernel that writes constants would be right: let the reference read its inputs",
        )
    fixed = [o.name for o in state.shapes.results if o.name not in stale]
    if fixed:
        state.notes.append(f"{_quote(fixed)} does not depend on the inputs")
        _mark_constant(state, wanted, fixed)
    names = [
        source.name
        for source in state.sampler.sources
        if source.name not in state.unread
        and (len(inputs) <= DEPENDS_MAX or source.kind is TensorKind.INPUT)
    ]
    dead = [name for name in names if not _changed(state, wanted, {**inputs, name: other[name]})]
    same = [n for n in dead if np.array_equal(inputs[n], other[n])]
    if same:
        state.notes.append(f"{_quote(same)} has the same values in every trial")
    if unread := [n for n in dead if n not in same]:
        state.notes.append(f"other values of {_quote(unread)} hardly change an output")


def _mark_constant(state: Calibration, wanted: Mapping[str, Array], names: list[str]) -> None:
    """Mark outputs of these that no input changes by one bit: a kernel may write constants there.

    Saturated ones are told apart: they move, if only a little.
    """
    runs = [state.run(inputs, Precision.DOUBLE) for inputs in _draw_extremes(state)]
    constant = {n for n in names if all(np.array_equal(run[n], wanted[n]) for run in runs)}
    outputs = tuple(
        replace(output, is_constant=output.name in constant) for output in state.shapes.outputs
    )
    state.shapes = replace(state.shapes, outputs=outputs)


def _changed(
    state: Calibration, wanted: dict[str, Array], inputs: Mapping[str, Array]
) -> list[str]:
    """Outputs that differ from `wanted` by more than twice the tolerance on these inputs."""
    try:
        own = state.run(inputs, Precision.SINGLE)
    except TaskError:
        return list(wanted)
    return [
        o.name
        for o in state.shapes.results
        if surely_misses(
            wanted[o.name],
            own[o.name],
            tolerance=tolerance_for(state.tolerance, o.dtype),
            by=_DEPENDS_RATIO,
        )
        or _ratio_of(o, state.tolerance, (wanted, own)) > _DEPENDS_RATIO
    ]


def is_finite(outputs: Mapping[str, Array]) -> bool:
    """Whether every real of every output is."""
    return all(
        a.dtype.kind in "iub" or bool(np.isfinite(a.astype(np.float64, copy=False)).all())
        for a in outputs.values()
    )


def _quote(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
