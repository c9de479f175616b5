"""Tries a freshly loaded reference on drawn inputs, and settles how a kernel for it is judged.

Law: an honest kernel in the task's own dtype passes. Two stand-ins for it use up at most half of
what is allowed, or the limits are widened and a note says so: the *own* one is the reference in the
task's dtype, rounded after each operation; the *single* one has float32 inside and is rounded at
both ends, as the engines do it.

- The tolerance class is settled with the own one on standard values; where no class holds it, with
  the single one.
- Scales of the big, tiny and low trials are settled in scaling.py.
- Tasks too large to try are given mild scales.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError, UnfitTaskError
from nki_agent.task.comparison import surely_misses
from nki_agent.task.conditioning import HONEST_SHARE
from nki_agent.task.family import BIG_UNTRIED, TINY_UNTRIED, Family
from nki_agent.task.recipe import SCALE_HIGH, SCALE_LOW, Recipe, Variation
from nki_agent.task.reference import Precision
from nki_agent.task.sampler import Origin, Source, UserSampler
from nki_agent.task.scaling import settle_families
from nki_agent.task.shifting import find_free_axes, ignores_shift
from nki_agent.task.task import ShapeSet, TensorKind
from nki_agent.task.tolerance import ToleranceClass, find_wider, tolerance_for
from nki_agent.task.trying import (
    NUM_DRAWS,
    Calibration,
    Pair,
    is_calm,
    is_finite,
    ratio_of,
    worst,
)

Array = NDArray[Any]

ELEMS_MAX = 1 << 23
"""Elements of all tensors together up to which a task is tried out while loading."""
FLOPS_MAX = 4_000_000_000
"""Matmul FLOPs up to which a task is tried out while loading: some seconds in float64."""
CANCELLING = frozenset({"asinh", "atanh", "elu", "expm1", "log1p", "sinh"})
"""Functions that the chip lacks: a plain kernel takes a difference (`exp(x) - 1`), which loses the
last digits near zero, where the reference does not."""
STRUCTURE_DRAWS = 8
"""Draws of values that mean something together: a few may fit by chance."""
DEPENDS_MAX = 16
"""Arguments whose influence is tried one by one; of more, the forward inputs only."""
_VARIATIONS = {
    Variation.FULL: "",
    Variation.SHRINK: "larger inputs leave the reference's domain: trials only shrink them",
    Variation.NONE: "other scales break the reference: inputs are as their function gives them",
}
_DEPENDS_RATIO = 2.0


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
        settle_families(state)
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
        for number in range(STRUCTURE_DRAWS):
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
    share = worst(state, first, pairs)
    if not is_calm(state, share):
        pairs += _draw_pairs(state, Precision.OWN)
        share = worst(state, first, pairs)
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
    while name is not None and worst(state, name, pairs) > HONEST_SHARE:
        name = find_wider(name)
    return name


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
        or ratio_of(o, state.tolerance, (wanted, own)) > _DEPENDS_RATIO
    ]


def _quote(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
