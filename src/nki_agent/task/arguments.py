"""Turns a task file's inputs and weights into named arguments, and the sources of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import seed_for
from nki_agent.isa.dtype import DType
from nki_agent.task.binding import Binding, Bound, Call, make_unique
from nki_agent.task.loading import Loading
from nki_agent.task.numpy_reference import NumpyReference
from nki_agent.task.recipe import infer_profile
from nki_agent.task.reference import RecordedReference
from nki_agent.task.sampler import Key, Origin, Source, index_values
from nki_agent.task.task import Argument, StaticArgument, TensorArgument, TensorKind
from nki_agent.task.values import Format, is_static, is_tensor, to_array, to_stored

Array = NDArray[Any]

FIRST, SECOND = 0, 1
"""Numbers of the two calls of the inputs function that are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A reference, its arguments in order, and where their values come from."""

    reference: RecordedReference
    call: Call
    arguments: tuple[Argument, ...]
    sources: tuple[Source, ...]
    unsaved: frozenset[str] = frozenset()
    """Weights outside the `state_dict`: arguments only if the reference reads them."""

    def without(self, names: frozenset[str]) -> Parts:
        """The same parts without some arguments."""
        return replace(
            self,
            arguments=tuple(a for a in self.arguments if a.name not in names),
            sources=tuple(s for s in self.sources if s.name not in names),
        )


def make_numpy_parts(loading: Loading, samples: Sequence[Mapping[Key, Any]]) -> Parts:
    """A NumPy function and the sources of its inputs."""
    entry = loading.form.entry
    bound, sources = bind_inputs(loading, name_inputs(loading, entry, samples[FIRST]), samples)
    call = make_call(loading, bound)
    reference = NumpyReference(function=entry, call=call, real_dtype=_first_real(call))
    return Parts(reference=reference, call=call, arguments=_forward(call), sources=tuple(sources))


def make_torch_parts(loading: Loading, samples: Sequence[Mapping[Key, Any]]) -> Parts:
    """A PyTorch module or function, with the sources of its inputs and weights."""
    from nki_agent.task import tensors, torch_reference  # noqa: PLC0415 - PyTorch is optional

    entry, forward, found = _make_entry(loading)
    bound, sources = bind_inputs(loading, name_inputs(loading, forward, samples[FIRST]), samples)
    call = make_call(loading, bound)
    names = make_unique([w.original for w in found], taken=call.taken)
    weights = []
    for name, weight in zip(names, found, strict=True):
        array = tensors.to_array(weight.tensor)
        stored = loading.format_of(array, what=f"the weight `{weight.original}`")
        argument = _argument(name, weight.original, stored, kind=weight.kind)
        sources.append(_source(argument, array, key="", origin=Origin.DRAWN))
        weights.append(
            torch_reference.Weight(
                argument=argument,
                tensor=weight.tensor,
                native_shape=stored.native_shape,
                is_saved=weight.is_saved,
            )
        )
    arguments = (*_forward(call), *(w.argument for w in weights))
    own = next((s.dtype for s in sources if s.dtype.is_float and s.dtype.itemsize > 1), None)
    reference = torch_reference.TorchReference(
        entry=entry,
        call=call,
        weights=tuple(weights),
        own_dtype=torch_reference.own_dtype_of(own),
    )
    return Parts(
        reference=reference,
        call=call,
        arguments=arguments,
        sources=tuple(sources),
        unsaved=frozenset(w.argument.name for w in weights if not w.is_saved),
    )


def _make_entry(loading: Loading) -> tuple[Any, Callable[..., Any], list[Any]]:
    """What is called, what its signature is read from, and the weights in it."""
    form = loading.form
    if not form.is_module:
        return form.entry, form.entry, []
    from nki_agent.task import torch_module  # noqa: PLC0415 - PyTorch is optional

    module = torch_module.make_module(form, seed=seed_for(loading.seed, "weights"))
    return module, module.forward, torch_module.find_weights(module)


def _forward(call: Call) -> tuple[Argument, ...]:
    return tuple(b if isinstance(b, StaticArgument) else b.argument for b in call.bound)


def make_call(loading: Loading, bound: Sequence[Bound]) -> Call:
    """The call of the reference with the forward arguments."""
    names = [b.name if isinstance(b, StaticArgument) else b.argument.name for b in bound]
    return Call(
        user=loading.user, bound=tuple(bound), by_name=loading.by_name, taken=frozenset(names)
    )


def _first_real(call: Call) -> DType | None:
    """The dtype of the first real input: what a NumPy reference's outputs are stored in."""
    reals = (b.argument.dtype for b in call.bindings() if b.argument.dtype.is_float)
    return next(reals, None)


def name_inputs(
    loading: Loading, function: Callable[..., Any], sample: Mapping[Key, Any]
) -> dict[Key, str]:
    """The original name of each value of the inputs function.

    Raises:
        TaskError: the reference takes another number of arguments.
    """
    if loading.by_name:
        return {key: str(key) for key in sample}
    try:
        parameters = list(signature(function).parameters.values())
    except ValueError:
        # A built-in function without a signature.
        return {key: f"x{key}" for key in sample}
    positional = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
    names = [p.name for p in parameters if p.kind in positional]
    rest = next((p.name for p in parameters if p.kind is Parameter.VAR_POSITIONAL), None)
    if rest is not None:
        names += [f"{rest}_{index}" for index in range(len(sample) - len(names))]
    needed = sum(p.kind in positional and p.default is Parameter.empty for p in parameters)
    if not needed <= len(sample) <= len(names):
        raise TaskError(
            f"{loading.user.path.name}: the inputs function gives {len(sample)} values, but the "
            f"reference takes {_quote(names) or 'none'}",
            hint="return one value for each argument, in order",
        )
    return dict(zip(sample, names, strict=False))


def bind_inputs(
    loading: Loading, names: Mapping[Key, str], samples: Sequence[Mapping[Key, Any]]
) -> tuple[list[Bound], list[Source]]:
    """Sort the values of the inputs function into tensors and static arguments.

    Raises:
        TaskError: a value is neither, or its shape changes between calls.
    """
    unique = dict(zip(names, make_unique(list(names.values())), strict=True))
    updates = _check_updates(loading, names)
    bound: list[Bound] = []
    sources: list[Source] = []
    for key, value in samples[FIRST].items():
        other = samples[SECOND].get(key)
        if is_tensor(value):
            binding, array = _bind_tensor(
                loading, value, name=unique[key], original=names[key], updates=updates
            )
            origin = _find_origin(array, other, name=unique[key], loading=loading)
            sources.append(_source(binding.argument, array, key=key, origin=origin))
            bound.append(binding)
        elif is_static(value):
            if value != other:
                loading.notes.append(f"`{names[key]}` varies with the seed: it is fixed at {value}")
            bound.append(StaticArgument(name=unique[key], value=value))
        else:
            raise TaskError(
                f"{loading.user.path.name}: `{names[key]}` is a {type(value).__name__}",
                hint="give tensors or arrays, or ints, floats, bools and None as static arguments",
            )
    return bound, _mark_unrepeatable(loading, sources, samples[FIRST])


def _bind_tensor(
    loading: Loading, value: Any, *, name: str, original: str, updates: frozenset[str]
) -> tuple[Binding, Array]:
    array = to_array(value)
    form_of = loading.format_of(array, what=f"the input `{original}`")
    argument = _argument(
        name, original, form_of, kind=TensorKind.INPUT, is_updated=original in updates
    )
    binding = Binding(
        argument=argument, native_dtype=form_of.native_dtype, native_shape=form_of.native_shape
    )
    return binding, array


def _argument(
    name: str, original: str, form_of: Format, *, kind: TensorKind, is_updated: bool = False
) -> TensorArgument:
    return TensorArgument(
        name=name,
        original=original,
        kind=kind,
        shape=form_of.shape,
        dtype=form_of.dtype,
        is_updated=is_updated,
    )


def _source(argument: TensorArgument, array: Array, *, key: Key, origin: Origin) -> Source:
    given = to_stored(array, argument.dtype)
    return Source(
        name=argument.name,
        key=key,
        kind=argument.kind,
        dtype=argument.dtype,
        profile=infer_profile(given),
        origin=origin,
        given=given,
    )


def _check_updates(loading: Loading, names: Mapping[Key, str]) -> frozenset[str]:
    updates = loading.form.settings.updates
    if unknown := [name for name in updates if name not in names.values()]:
        raise TaskError(
            f"{loading.user.path.name}: UPDATES names `{unknown[0]}`, which is no input",
            hint=f"the inputs are {', '.join(f'`{n}`' for n in names.values())}",
        )
    return frozenset(updates)


def _find_origin(array: Array, other: Any, *, name: str, loading: Loading) -> Origin:
    """From the function if its values follow the seed, else drawn."""
    second = to_array(other) if is_tensor(other) else np.empty(0)
    if second.shape != array.shape:
        raise TaskError(
            f"{loading.user.path.name}: `{name}` has the shape {list(array.shape)} in one call of "
            f"the inputs function and {list(second.shape)} in another",
            hint="shapes must not depend on chance",
        )
    return Origin.DRAWN if _is_equal(array, second) else Origin.FUNCTION


def _mark_unrepeatable(
    loading: Loading, sources: list[Source], sample: Mapping[Key, Any]
) -> list[Source]:
    """Draw by recipe what the inputs function does not give again under the same seed."""
    drawn = [s for s in sources if s.origin is Origin.DRAWN and not s.dtype.is_integer]
    # Zeros are the plain way to state a shape; whoever writes other values may count on them.
    fixed = [s.name for s in drawn if np.any(to_array(sample[s.key]))]
    if fixed:
        loading.notes.append(
            f"the inputs function gives {_quote(fixed)} alike under every seed: "
            "trials draw other values"
        )
    if all(source.origin is Origin.DRAWN for source in sources):
        return sources
    assert loading.form.inputs is not None
    again = index_values(loading.form.inputs(seed_for(loading.seed, "inputs", FIRST)))
    marked, loose = [], []
    for source in sources:
        is_loose = source.origin is Origin.FUNCTION and not _is_equal(
            to_array(again[source.key]), to_array(sample[source.key])
        )
        loose += [source.name] if is_loose else []
        marked.append(replace(source, origin=Origin.DRAWN) if is_loose else source)
    if loose:
        loading.notes.append(
            f"the inputs function does not follow the seed for {_quote(loose)}: trials draw values "
            "like those; take `rng` as its parameter to decide them"
        )
    return marked


def _is_equal(left: Array, right: Array) -> bool:
    return left.shape == right.shape and left.tobytes() == right.tobytes()


def _quote(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
