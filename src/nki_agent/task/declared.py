"""Loads a task file that declares its tensors and its sizes.

    SHAPES = {"dev": {"M": 130, "N": 300}, "perf": {"M": 4096, "N": 8192}}
    INPUTS = {"x": "bfloat16[M, N]"}
    PARAMETERS = {"gain": "bfloat16[N] gain"}
    OUTPUTS = {"y": "bfloat16[M, N]"}

    class Model(nn.Module):
        def __init__(self, N: int) -> None: ...
        def forward(self, x): ...

Law: `dev` is where a kernel is proven, `perf` where its speed is claimed, and `odd`, if it is
there, one more choice of sizes that a kernel must be right at. The constructor takes sizes by name.
Every parameter and buffer is declared, since its values come from the trial and never from the
file. Shapes, bytes and FLOPs come from a run without data. A size that a kernel cannot read from
its tensors (free_sizes.py) follows them as a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.task.binding import Binding, Call, make_unique
from nki_agent.task.declaration import (
    MATMUL_DTYPE,
    MATMUL_FLOPS,
    MIN_HBM_BYTES,
    OUTPUTS,
    SHAPES,
    Declaration,
    Declared,
    Size,
    Sizes,
)
from nki_agent.task.form import FileForm
from nki_agent.task.free_sizes import find_free, names_in
from nki_agent.task.recipe import STANDARD_STRENGTH, Profile, infer_profile
from nki_agent.task.record import Record
from nki_agent.task.sampler import Origin, Source, UserSampler
from nki_agent.task.task import (
    Output,
    ShapeSet,
    StaticArgument,
    TensorArgument,
    TensorKind,
    Work,
)
from nki_agent.task.values import to_stored
from nki_agent.task.work import make_work

_Sample = tuple[NDArray[Any], Profile]


def make_shapes(
    form: FileForm, sizes: Sizes, *, name: str, seed: int, dev: ShapeSet | None = None
) -> tuple[ShapeSet, Record]:
    """The task at one choice of its sizes, from a run without data; `name` is the choice's.

    Samples are taken from `dev`, where it is there already.

    Raises:
        TaskError: constructor, forward, parameters or outputs are not as declared.
    """
    from nki_agent.task import torch_meta  # noqa: PLC0415 - PyTorch is optional

    declared = require_declared(form)
    inputs, parameters = _make_arguments(form, sizes)
    call = Call(
        user=form.user,
        bound=tuple(_bind(argument) for argument in inputs),
        by_name=True,
        taken=frozenset(a.name for a in inputs),
        output_names=tuple(declared.outputs),
    )
    given = _constructor_sizes(form, sizes) if form.is_module else {}
    bare = torch_meta.make_bare(form, given, parameters=parameters, call=call)
    found, record = bare.follow()
    arguments = (*inputs, *(w.argument for w in bare.weights))
    outputs = _match_outputs(declared, found, sizes, file=form.user.path.name)
    work = make_work(record, tensors=arguments, outputs=outputs)
    samples = _samples_of(dev)
    sources = tuple(
        _make_source(declared, a, sizes, sample=samples.get(a.name) or _draw(declared, a, seed))
        for a in arguments
    )
    shapes = ShapeSet(
        name=name,
        arguments=(*arguments, *_free_sizes(declared, arguments, given, sizes)),
        outputs=outputs,
        work=_replace_work(work, declared, sizes),
        scales={},
        reference=bare.give_memory(),
        sampler=UserSampler(function=None, sources=sources),
    )
    return shapes, record


def _free_sizes(
    declared: Declared, tensors: Sequence[TensorArgument], given: Sizes, sizes: Sizes
) -> tuple[StaticArgument, ...]:
    """What the module or the outputs need and no tensor tells."""
    axes = (axis for output in declared.outputs.values() for axis in output.shape)
    wanted = {*given, *(name for axis in axes for name in names_in(axis))}
    free = find_free(declared, wanted)
    names = make_unique(free, taken=[tensor.name for tensor in tensors])
    return tuple(
        StaticArgument(name=name, value=sizes[size]) for name, size in zip(names, free, strict=True)
    )


def require_declared(form: FileForm) -> Declared:
    """The declarations of a file that has some."""
    assert form.declared is not None
    return form.declared


def at_scales_of(dev: ShapeSet, other: ShapeSet) -> ShapeSet:
    """Another shape set, drawn and scaled as the dev one was settled to be."""
    assert isinstance(dev.sampler, UserSampler)
    assert isinstance(other.sampler, UserSampler)
    sampler = other.sampler
    settled_as = {s.name: s for s in dev.sampler.sources}
    sources = tuple(
        replace(
            s,
            is_shiftable=settled_as[s.name].is_shiftable,
            free_axes=settled_as[s.name].free_axes,
        )
        for s in sampler.sources
    )
    settled = replace(
        sampler,
        sources=sources,
        variation=dev.sampler.variation,
        is_distinct=dev.sampler.is_distinct,
    )
    constant = {o.name: o.is_constant for o in dev.outputs}
    outputs = tuple(replace(o, is_constant=constant[o.name]) for o in other.outputs)
    return replace(other, sampler=settled, scales=dev.scales, outputs=outputs)


def _make_arguments(
    form: FileForm, sizes: Sizes
) -> tuple[tuple[TensorArgument, ...], tuple[TensorArgument, ...]]:
    """Inputs and parameters, as declared."""
    declared = require_declared(form)
    entries = [
        *((name, TensorKind.INPUT, d) for name, d in declared.inputs.items()),
        *((name, TensorKind.PARAMETER, d) for name, d in declared.parameters.items()),
    ]
    names = make_unique([name for name, _, _ in entries])
    arguments = [
        TensorArgument(
            name=unique,
            original=name,
            kind=kind,
            shape=d.shape_at(sizes) or (1,),
            dtype=d.dtype,
            is_updated=kind is TensorKind.INPUT and name in form.settings.updates,
        )
        for unique, (name, kind, d) in zip(names, entries, strict=True)
    ]
    count = len(declared.inputs)
    return tuple(arguments[:count]), tuple(arguments[count:])


def _bind(argument: TensorArgument) -> Binding:
    native = _in_torch(argument.dtype)
    return Binding(
        argument=argument,
        native_dtype="bool" if native is DType.BOOL else native.value,
        native_shape=argument.shape,
    )


def _in_torch(dtype: DType) -> DType:
    """PyTorch has one form of these 8-bit floats, which holds every value of the other."""
    return DType.FLOAT8_E4M3FN if dtype is DType.FLOAT8_E4M3 else dtype


def _constructor_sizes(form: FileForm, sizes: Sizes) -> dict[str, int]:
    wanted = [
        parameter.name
        for parameter in signature(form.entry).parameters.values()
        if parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]
    if unknown := [name for name in wanted if name not in sizes]:
        raise TaskError(
            f"{form.user.path.name}: the constructor takes `{unknown[0]}`, which {SHAPES} does "
            "not name",
            hint=f"it may take {', '.join(f'`{n}`' for n in sizes)}",
        )
    return {name: sizes[name] for name in wanted}


def _match_outputs(
    declared: Declared, found: list[tuple[tuple[int, ...], str]], sizes: Sizes, *, file: str
) -> tuple[Output, ...]:
    wanted = [
        Output(name=name, shape=d.shape_at(sizes) or (1,), dtype=d.dtype)
        for name, d in declared.outputs.items()
    ]
    shown = [f"{dtype}{list(shape)}" for shape, dtype in found]
    asked = [f"{_in_torch(o.dtype).value}{list(o.shape)}" for o in wanted]
    if shown != asked:
        raise TaskError(
            f"{file}: the reference gives {', '.join(shown)}, but {OUTPUTS} declares "
            f"{', '.join(asked)}",
            hint="return them in the declared order, shape and dtype (`.to(torch.bfloat16)`)",
        )
    return tuple(wanted)


def _samples_of(dev: ShapeSet | None) -> dict[str, _Sample]:
    if dev is None:
        return {}
    assert isinstance(dev.sampler, UserSampler)
    return {s.name: (s.given, s.profile) for s in dev.sampler.sources}


def _draw(declared: Declared, argument: TensorArgument, seed: int) -> _Sample:
    """A sample of the dev shape."""
    declaration = _declaration_of(declared, argument)
    sample = declaration.recipe_at(declared.sizes).draw(
        rng_for(seed, argument.name),
        declaration.shape_at(declared.sizes) or (1,),
        strength=STANDARD_STRENGTH,
    )
    given = to_stored(sample, argument.dtype)
    return given, infer_profile(given)


def _declaration_of(declared: Declared, argument: TensorArgument) -> Declaration:
    name = argument.original
    return declared.inputs[name] if name in declared.inputs else declared.parameters[name]


def _make_source(
    declared: Declared, argument: TensorArgument, sizes: Sizes, *, sample: _Sample
) -> Source:
    """A source with a sample of the dev shape: other shapes have values of the same kind."""
    given, profile = sample
    return Source(
        name=argument.name,
        key=argument.name,
        kind=argument.kind,
        dtype=argument.dtype,
        profile=profile,
        origin=Origin.DECLARED,
        given=given
        if given.shape == argument.shape
        else np.broadcast_to(given.reshape(-1)[:1].reshape(()), argument.shape),
        recipe=_declaration_of(declared, argument).recipe_at(sizes),
    )


def _read_dtype(name: str) -> DType:
    try:
        return DType(name)
    except ValueError as error:
        raise TaskError(f"{MATMUL_DTYPE} is `{name}`", hint=f"one of {', '.join(DType)}") from error


def _replace_work(work: Work, declared: Declared, sizes: Sizes) -> Work:
    """What the file says of its least work in place of what a run counts.

    A run counts what the reference does, which may be more than a kernel must: the experts that no
    token was sent to, the part of a cache that stays.
    """
    flops = declared.work.get(MATMUL_FLOPS)
    if flops is not None:
        dtypes = list(work.matmul_flops_by_dtype) or [DType.FLOAT32]
        work = replace(work, matmul_flops_by_dtype={dtypes[0]: Size(flops).value(sizes)})
    dtype = declared.work.get(MATMUL_DTYPE)
    if dtype is not None:
        work = replace(work, matmul_flops_by_dtype={_read_dtype(dtype): work.matmul_flops})
    num_bytes = declared.work.get(MIN_HBM_BYTES)
    if num_bytes is not None:
        work = replace(work, min_hbm_bytes=Size(num_bytes).value(sizes))
    return work
