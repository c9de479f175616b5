"""Lint of what is no kernel: constants, stale or copied outputs, inputs or parts of no weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.task.subject import FAILS_BY, MATTERS_BY, Check, LintFinding, Subject
from nki_agent.task.task import Output, TensorArgument
from nki_agent.task.tolerance import Gate
from nki_agent.task.trial import expected, round_results
from nki_agent.task.trying import is_finite

Array = NDArray[Any]

NUM_DRAWS = 2
"""Other draws of an input that may show that it matters: the further standard trials."""
_MATRIX_RANK = 2
_VARY_MORE = "draw inputs for which the outputs vary more, or tighten TOLERANCE"
NUM_SLICES = 2
"""Slices of each axis that are tried: the smallest."""
_NOTHING = 1e-300
_CHANGED = 1.25
"""A factor for inputs that have the same values in every trial."""


def check_constants(subject: Subject) -> Iterator[LintFinding]:
    """The best constant output for two seeds, and the mean of each row for one.

    Row means have to be computed from the inputs, so it is enough that they fail clearly.
    """
    for output in subject.judged:
        margins = {
            what: max(subject.margin(output, array, number=n) for n in (0, 1))
            for what, array in _list_constants(subject, output)
            if not any(subject.misses(output, array, by=FAILS_BY, number=n) for n in (0, 1))
        }
        if margins:
            best = min(margins, key=lambda what: margins[what])
            yield _too_near(
                Check.CONSTANT, f"`{output.name}` filled with {best}", margins[best], _VARY_MORE
            )
        rows = _row_means(subject, output)
        if rows is not None and not subject.misses(output, rows, by=MATTERS_BY):
            yield _too_near(
                Check.CONSTANT,
                f"`{output.name}` filled with the mean of each row",
                subject.margin(output, rows),
                _VARY_MORE,
                allowed=MATTERS_BY,
            )


def _list_constants(subject: Subject, output: Output) -> Iterator[tuple[str, Array]]:
    """No kernel knows the seed: a constant has to serve two of them."""
    wanted = np.stack([subject.wanted[n][output.name] for n in (0, 1)]).astype(np.float64)
    values, counts = np.unique(wanted, return_counts=True)
    constants = {
        "zeros": 0.0,
        "its mean": float(wanted.mean()),
        "its median": float(np.median(wanted)),
        "its most frequent value": float(values[counts.argmax()]),
    }
    for what, value in constants.items():
        yield what, _store(np.full(output.shape, value), output)


def _row_means(subject: Subject, output: Output) -> Array | None:
    """None where rows are constant by design: a kernel has to compute them."""
    wanted = subject.wanted[0][output.name].astype(np.float64)
    if wanted.ndim < _MATRIX_RANK or (wanted == wanted[..., :1]).all():
        return None
    rows = np.broadcast_to(wanted.mean(axis=-1, keepdims=True), output.shape)
    return _store(rows, output)


def _store(values: Array, output: Output) -> Array:
    with np.errstate(all="ignore"):
        rounded = values if output.dtype.is_float else np.rint(values)
        return rounded.astype(output.dtype.numpy_dtype)


def check_stale(subject: Subject) -> Iterator[LintFinding]:
    """The right outputs of other inputs."""
    other = round_results(subject.shapes, subject.wanted[1])
    for output in subject.judged:
        if not subject.misses(output, other[output.name], by=FAILS_BY):
            yield _too_near(
                Check.STALE,
                f"`{output.name}` of another seed",
                subject.margin(output, other[output.name]),
                "let the outputs depend on the inputs more: no means over everything",
            )


def check_copies(subject: Subject) -> Iterator[LintFinding]:
    """Every input, or its leading part, in the place of an output."""
    work = subject.shapes.work
    if not work.elementwise_elems and not work.matmul_flops:
        return
    for output in subject.judged:
        for tensor in subject.shapes.tensors:
            copied = _copy(subject.inputs[0][tensor.name], output)
            if copied is not None and not subject.misses(output, copied, by=FAILS_BY):
                yield _too_near(
                    Check.COPY,
                    f"the input `{tensor.name}` in the place of `{output.name}`",
                    subject.margin(output, copied),
                    "draw inputs that the reference changes more",
                )


def _copy(array: Array, output: Output) -> Array | None:
    if array.size == output.num_elems:
        return _store(array.reshape(output.shape).astype(np.float64), output)
    fits = array.ndim == len(output.shape) and all(
        a >= b for a, b in zip(array.shape, output.shape, strict=True)
    )
    if not fits:
        return None
    return _store(array[tuple(slice(0, n) for n in output.shape)].astype(np.float64), output)


def _too_near(
    check: Check, what: str, margin: float, hint: str, *, allowed: float = FAILS_BY
) -> LintFinding:
    return LintFinding(
        check=check,
        what=what,
        found=f"fails by {margin:.2g} times",
        allowed=f"{allowed:g} times or more",
        hint=hint,
    )


def check_inputs(subject: Subject) -> Iterator[LintFinding]:
    """Another draw of any single input changes an output."""
    for tensor in subject.shapes.tensors:
        change = 0.0
        for values in _list_others(subject, tensor):
            change = max(change, _change(subject, {tensor.name: values}))
            if change > MATTERS_BY:
                break
        if change <= MATTERS_BY:
            yield LintFinding(
                check=Check.INPUT,
                what=f"another draw of `{tensor.name}` alone",
                found=f"changes outputs by {change:.2g} of the tolerance",
                allowed=f"more than {MATTERS_BY:g}",
                hint="leave it out, or draw values for which it counts",
            )


def _list_others(subject: Subject, tensor: TensorArgument) -> Iterator[Array]:
    """Other values of one input: of other trials, or its own changed where all have the same."""
    own = subject.inputs[0][tensor.name]
    others = [inputs[tensor.name] for inputs in subject.inputs[1 : 1 + NUM_DRAWS]]
    different = [a for a in others if a.tobytes() != own.tobytes()]
    yield from different
    if not different:
        if tensor.dtype.is_float:
            yield (own.astype(np.float64) * _CHANGED).astype(own.dtype)
        yield np.roll(own, 1, axis=int(np.argmax(own.shape)))


def _change(subject: Subject, replaced: dict[str, Array]) -> float:
    """The largest change of an output, as a share of the limits; infinite where it is clear."""
    try:
        found = expected(subject.task, {**subject.inputs[0], **replaced})
    except TaskError:
        return np.inf
    if not is_finite(found):
        return np.inf
    stored = round_results(subject.shapes, found)
    if any(subject.misses_surely(o, stored[o.name], by=MATTERS_BY) for o in subject.shapes.results):
        return np.inf
    return max(subject.ratio(o, stored[o.name]) for o in subject.shapes.results)


def check_slices(subject: Subject) -> Iterator[LintFinding]:
    """Zeros in the place of the smallest slices of an output, in every trial.

    Where outputs of different scales share one tensor, the small ones are lost in the limits.
    """
    for output in subject.judged:
        if subject.task.tolerance_of(output).gate is Gate.EXACT:
            continue
        wanted = [outputs[output.name] for outputs in subject.wanted]
        for axis, place in _list_faint(wanted):
            faked = [_without(array, output, axis, place) for array in wanted]
            if any(
                subject.misses(output, array, by=MATTERS_BY, number=number)
                for number, array in enumerate(faked)
            ):
                continue
            yield _too_near(
                Check.SLICE,
                f"`{output.name}` with zeros at index {place} of axis {axis}",
                max(subject.margin(output, a, number=n) for n, a in enumerate(faked)),
                "give parts of so different scales as outputs of their own",
                allowed=MATTERS_BY,
            )
            return


def _list_faint(arrays: Sequence[Array]) -> Iterator[tuple[int, int]]:
    """The smallest slices of each axis that are not zero everywhere."""
    for axis, size in enumerate(arrays[0].shape):
        if size == 1:
            continue
        others = tuple(a for a in range(arrays[0].ndim) if a != axis)
        shares = np.max([_share_slices(a.astype(np.float64), others) for a in arrays], axis=0)
        faint = [int(place) for place in np.argsort(shares)[:NUM_SLICES] if shares[place] > 0]
        yield from ((axis, place) for place in faint)


def _share_slices(values: Array, others: tuple[int, ...]) -> Array:
    squares = np.square(values)
    shares: Array = squares.sum(axis=others) / max(float(squares.sum()), _NOTHING)
    return shares


def _without(array: Array, output: Output, axis: int, place: int) -> Array:
    stored = array.astype(output.dtype.numpy_dtype)  # a copy in any case
    stored[(slice(None),) * axis + (place,)] = 0
    return stored


CHECKS = (check_constants, check_stale, check_copies, check_inputs, check_slices)
