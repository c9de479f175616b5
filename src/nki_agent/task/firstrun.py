"""What a reference's first runs show: its outputs, whether it repeats, what it overwrites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError, UnfitTaskError
from nki_agent.base.seeds import seed_for
from nki_agent.task.arguments import Parts
from nki_agent.task.family import STANDARD_SCALE
from nki_agent.task.loading import Loading
from nki_agent.task.record import Record
from nki_agent.task.reference import Precision, Reference, Results
from nki_agent.task.sampler import UserSampler
from nki_agent.task.task import Output, ShapeSet, TensorArgument, TensorKind
from nki_agent.task.values import find_format, to_stored

Array = NDArray[Any]


def list_outputs(loading: Loading, results: Results) -> tuple[Output, ...]:
    """The outputs in order.

    Raises:
        TaskError: one is empty, has a dtype that the chip lacks, or is not finite.
    """
    outputs = []
    for name, array in results.outputs.items():
        found = find_format(array, what=f"the reference's `{name}`", is_torch=False, wanted=None)
        if found.note:
            loading.notes.append(found.note)
        _require_finite(loading, array, name=name)
        outputs.append(Output(name=name, shape=found.shape, dtype=found.dtype))
    return tuple(outputs)


def _require_finite(loading: Loading, array: Array, *, name: str) -> None:
    if array.dtype.kind in "iub":
        return
    finite = np.isfinite(array.astype(np.float32, copy=False))
    if not finite.all():
        raise UnfitTaskError(
            f"{loading.user.path.name}: `{name}` of the reference has "
            f"{np.count_nonzero(~finite)} values that are NaN or infinite",
            check="finite",
            hint="let the inputs function draw values for which every output is finite",
        )


def check_repeats(
    loading: Loading, reference: Reference, inputs: Mapping[str, Array], first: Results
) -> None:
    """Run again and compare bytes.

    Raises:
        TaskError: two runs on the same inputs differ.
    """
    second = reference.run(inputs, precision=Precision.OWN)
    for name, array in first.outputs.items():
        again = second.outputs.get(name)
        if again is None or again.tobytes() != array.tobytes():
            raise UnfitTaskError(
                f"{loading.user.path.name}: two runs of the reference on the same inputs give "
                f"different values of `{name}`",
                check="repeats",
                hint="take random values (a dropout mask, say) as an input, and draw none inside",
            )


def check_first_run(loading: Loading, shapes: ShapeSet, inputs: Mapping[str, Array]) -> None:
    """Run a declared reference on drawn values.

    Raises:
        TaskError: it is not finite, does not repeat, or changes other inputs than it says.
    """
    reference = shapes.reference
    first = reference.run(inputs, precision=Precision.OWN)
    for output in shapes.outputs:
        array = first.outputs[output.name]
        _require_finite(loading, array, name=output.name)
        if (array.shape or (1,)) != output.shape:
            raise TaskError(
                f"{loading.user.path.name}: `{output.name}` has the shape {list(array.shape)} on "
                f"values, and {list(output.shape)} without",
                hint="shapes of outputs must not depend on the values of inputs",
            )
    check_repeats(loading, reference, inputs, first)
    for tensor in shapes.updates:
        after = to_stored(first.inputs[tensor.name], tensor.dtype)
        if after.tobytes() == inputs[tensor.name].tobytes():
            raise _unchanged(loading, tensor.original)


def _unchanged(loading: Loading, name: str) -> TaskError:
    return TaskError(
        f"{loading.user.path.name}: UPDATES names `{name}`, which the reference leaves unchanged",
        hint="update it in place, as in `x.copy_(y)` or `x[...] = y`",
    )


def check_updates(
    loading: Loading,
    parts: Parts,
    inputs: Mapping[str, Array],
    first: Results,
    *,
    sampler: UserSampler,
) -> None:
    """Compare the inputs before and after a run with what the file says.

    Raises:
        TaskError: an input that it declares as updated stays the same, on other values too.
    """
    bindings = tuple(parts.call.bindings())
    tensors = [b.argument for b in bindings]
    changed = find_changed(tensors, inputs, first)
    if any(b.argument.is_updated and b.argument.name not in changed for b in bindings):
        # On the file's own values, zeros say, an update may change nothing.
        drawn = sampler.draw(seed_for(loading.seed, "updates"), STANDARD_SCALE)
        changed |= find_changed(tensors, drawn, parts.reference.record(drawn)[0])
    for binding in bindings:
        argument = binding.argument
        if argument.is_updated and argument.name not in changed:
            raise _unchanged(loading, argument.original)
        if argument.name in changed and not argument.is_updated:
            loading.notes.append(
                f"the reference overwrites `{argument.original}`: a kernel must leave it as it is, "
                f'or the file must say UPDATES = ("{argument.original}",)'
            )


def find_changed(
    tensors: Iterable[TensorArgument], before: Mapping[str, Array], after: Results
) -> set[str]:
    """Names of the forward inputs that a run left with other bytes."""
    return {
        t.name
        for t in tensors
        if t.name in after.inputs
        and to_stored(after.inputs[t.name], t.dtype).tobytes() != before[t.name].tobytes()
    }


def find_unread(record: Record, tensors: tuple[TensorArgument, ...]) -> frozenset[str]:
    """Names of the arguments that the reference never reads, as far as reads were followed."""
    if record.touched is None:
        return frozenset()
    seen = {*record.touched, *record.written}
    return frozenset(t.name for t in tensors if t.name not in seen)


def note_record(loading: Loading, record: Record, tensors: tuple[TensorArgument, ...]) -> None:
    """Note what the record shows: unread arguments, and tensors that no kernel is given."""
    unread = find_unread(record, tensors)
    for tensor in tensors:
        if tensor.name in unread:
            place = "input" if tensor.kind is TensorKind.INPUT else "weight"
            loading.notes.append(f"the {place} `{tensor.original}` is never read")
    for shape in record.hidden_shapes:
        loading.notes.append(
            f"the reference reads a tensor of shape {list(shape)} that is neither an input nor a "
            "weight: no kernel is given it; make it an input, a parameter or a buffer"
        )
