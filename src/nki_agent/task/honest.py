"""Lint of the reference itself: it repeats, is finite, leaves room, and hides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import rng_for
from nki_agent.task.conditioning import HONEST_SHARE
from nki_agent.task.family import Family
from nki_agent.task.firstrun import find_changed
from nki_agent.task.reference import Precision
from nki_agent.task.subject import Check, LintFinding, Subject
from nki_agent.task.task import Output
from nki_agent.task.tolerance import Gate
from nki_agent.task.trial import expected, round_results, stand_in
from nki_agent.task.trying import is_finite

Array = NDArray[Any]

ROUNDED_SHARE = 0.98
"""What one rounding may take by itself: a peaked bfloat16 output just over a power of two."""
ROUNDED_SLACK = 1.1
"""A stand-in may be this many times worse than one rounding where that takes over half."""
OWN_SHARE = 2.0
"""What rounding after each operation of the reference may take: no kernel rounds as often, since
the engines have float32 inside."""
SATURATED_SHARE = 0.8
"""Part of an output that may lie at its smallest and largest value."""
_NONZERO_SHARE = 0.3
_SIZE_MIN = 16
# Far under the distance of two float32 numbers: only values that are equal change their order.
_JITTER = 2.0**-40
_JITTER_AT_ZERO = 1e-30


def check_repeats(subject: Subject) -> Iterator[LintFinding]:
    """Run the first trial again, after all the others."""
    inputs = subject.trials[0].inputs(subject.task)
    if any(inputs[n].tobytes() != a.tobytes() for n, a in subject.inputs[0].items()):
        yield _repeats("the inputs of one seed")
        return
    again = expected(subject.task, inputs)
    for name, array in again.items():
        if array.tobytes() != subject.wanted[0][name].tobytes():
            yield _repeats(f"`{name}` of the reference on the same inputs")


def _repeats(what: str) -> LintFinding:
    return LintFinding(
        check=Check.REPEATS,
        what=what,
        found="other bytes in a later run",
        allowed="the same in any order and process",
        hint="keep no state, and draw nothing that the seed does not give",
    )


def check_finite(subject: Subject) -> Iterator[LintFinding]:
    """Every trial of every family, in float64."""
    for trial, wanted in zip(subject.trials, subject.wanted, strict=True):
        if not is_finite(wanted):
            yield LintFinding(
                check=Check.FINITE,
                what=f"the reference on {trial.family} inputs (trial {trial.index})",
                found="NaN or infinite values",
                allowed="finite ones",
                hint="let the inputs function draw values inside the reference's domain",
            )
            return


def check_noise(subject: Subject) -> Iterator[LintFinding]:
    """Honest stand-ins: rounded once, with float32 inside, and in the task's own dtype.

    The last one rounds after each operation, so more is allowed, and on standard values only.
    """
    worst: dict[str, tuple[float, str]] = {}
    for number, trial in enumerate(subject.trials):
        if not is_finite(subject.wanted[number]):
            continue
        rounded = _ratios(subject, number, Precision.DOUBLE)
        for precision, where in _STAND_INS.items():
            if precision is Precision.OWN and trial.family is not Family.STANDARD:
                continue
            is_rounded = precision is Precision.DOUBLE
            ratios = rounded if is_rounded else _ratios(subject, number, precision)
            for name, ratio in ratios.items():
                allowed = _allow(precision, rounded[name])
                if ratio > max(allowed, worst.get(name, (0.0, ""))[0]):
                    worst[name] = (ratio, f"{where} on {trial.family} inputs")
    for name, (ratio, where) in worst.items():
        yield LintFinding(
            check=Check.NOISE,
            what=f"an honest `{name}`, {where}",
            found=f"{ratio:.2g} of the tolerance",
            allowed=f"{HONEST_SHARE:g} ({OWN_SHARE:g} in its own dtype), or one rounding",
            hint="take a wider TOLERANCE class, or better conditioned inputs",
        )


def _allow(precision: Precision, rounded: float) -> float:
    """The share that a stand-in may take, where one rounding alone takes `rounded`."""
    if precision is Precision.OWN:
        return OWN_SHARE
    return max(HONEST_SHARE, min(ROUNDED_SHARE, ROUNDED_SLACK * rounded))


_STAND_INS = {
    Precision.DOUBLE: "rounded once",
    Precision.SINGLE: "with float32 inside",
    Precision.OWN: "in the task's own dtype",
}


def _ratios(subject: Subject, number: int, precision: Precision) -> dict[str, float]:
    if precision is Precision.DOUBLE:
        actual = round_results(subject.shapes, subject.wanted[number])
    else:
        try:
            actual = stand_in(subject.shapes, subject.inputs[number], precision)
        except TaskError:
            return {o.name: float("inf") for o in subject.shapes.results}
    return {o.name: subject.ratio(o, actual[o.name], number=number) for o in subject.shapes.results}


def check_saturated(subject: Subject) -> Iterator[LintFinding]:
    """Outputs that lie at their bounds, where no error of a kernel would show."""
    for output in subject.judged:
        tolerance = subject.task.tolerance_of(output)
        if tolerance.gate is not Gate.REAL or output.num_elems < _SIZE_MIN:
            continue
        share, at_nonzero = _share_at_bounds(subject.wanted[0][output.name], tolerance.rel_l2)
        if share > SATURATED_SHARE and at_nonzero > _NONZERO_SHARE:
            yield LintFinding(
                check=Check.SATURATED,
                what=f"values of `{output.name}` at its smallest or largest",
                found=f"{share:.0%}",
                allowed=f"{SATURATED_SHARE:.0%}",
                hint="draw inputs for which the function is not flat",
            )


def _share_at_bounds(values: Array, limit: float) -> tuple[float, float]:
    near = limit * float(np.sqrt(np.mean(np.square(values))))
    shares = [(b, float(np.mean(np.abs(values - b) <= near))) for b in (values.min(), values.max())]
    return min(1.0, sum(s for _, s in shares)), sum(s for b, s in shares if abs(b) > near)


def check_ties(subject: Subject) -> Iterator[LintFinding]:
    """Integer outputs must not hang on which of two equal reals comes first."""
    exact = [o for o in subject.judged if _is_index(subject, o)]
    if not exact:
        return
    moved = dict(subject.inputs[0])
    for tensor in subject.shapes.tensors:
        if tensor.dtype.is_float:
            noise = rng_for(0, "ties", tensor.name).standard_normal(tensor.shape)
            reals = moved[tensor.name].astype(np.float64)
            moved[tensor.name] = reals * (1 + _JITTER * noise) + _JITTER_AT_ZERO * noise
    results = expected(subject.task, moved)
    for output in exact:
        differing = np.count_nonzero(results[output.name] != subject.wanted[0][output.name])
        if differing:
            yield LintFinding(
                check=Check.TIES,
                what=f"elements of `{output.name}` that equal values decide",
                found=f"{differing} of {output.num_elems}",
                allowed="none",
                hint="draw inputs without equal values, as by a permutation, or compare the values",
            )


def _is_index(subject: Subject, output: Output) -> bool:
    return output.dtype.is_integer and subject.task.tolerance_of(output).gate is Gate.EXACT


def check_record(subject: Subject) -> Iterator[LintFinding]:
    """Tensors that no kernel is given, and inputs that the reference overwrites."""
    record_run = getattr(subject.shapes.reference, "record", None)
    if record_run is None:
        return
    results, record = record_run(subject.inputs[0])
    for shape in record.hidden_shapes:
        yield LintFinding(
            check=Check.HIDDEN,
            what="a tensor that is neither an input nor a weight",
            found=f"shape {list(shape)}",
            allowed="none: no kernel is given it",
            hint="make it an input, a parameter or a buffer",
        )
    changed = find_changed(subject.shapes.tensors, subject.inputs[0], results)
    updated = {t.name for t in subject.shapes.updates}
    for name in sorted(changed - updated):
        yield LintFinding(
            check=Check.MUTATES,
            what=f"the reference overwrites `{name}`",
            found="other values after a run",
            allowed="the same, unless UPDATES names it",
            hint=f'clone it first, or set UPDATES = ("{name}",)',
        )


def check_shapes(subject: Subject) -> Iterator[LintFinding]:
    """All shape sets have the same arguments and outputs, but for sizes."""
    first = _signature(subject.shapes)
    for shapes in subject.task.shape_sets[1:]:
        for name, found in _signature(shapes).items():
            if found != first.get(name):
                yield LintFinding(
                    check=Check.SHAPES,
                    what=f"`{name}` in the shape set `{shapes.name}`",
                    found=f"rank and dtype {found}",
                    allowed=f"those of `{subject.shapes.name}`: {first.get(name)}",
                    hint="shape sets may differ in sizes only",
                )


def _signature(shapes: Any) -> dict[str, tuple[int, str]]:
    return {t.name: (len(t.shape), t.dtype.value) for t in (*shapes.tensors, *shapes.results)}


CHECKS = (
    check_shapes,
    check_repeats,
    check_finite,
    check_noise,
    check_saturated,
    check_ties,
    check_record,
)
