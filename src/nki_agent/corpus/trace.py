"""A task file in any of our forms, run once without data while its operations are followed.

Law: every tensor has a shape and no memory, so that a task of any size costs milliseconds. The
file's code runs in this process: only for files that are trusted. Needs PyTorch.
"""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nki_agent.base.errors import TaskError
from nki_agent.corpus.follow import Before, Follower
from nki_agent.corpus.nodes import GraphError, Node
from nki_agent.corpus.numpy_form import run_numpy
from nki_agent.task.declaration import DEV, ODD, PERF, Declaration, Declared
from nki_agent.task.form import FileForm, find_form
from nki_agent.task.handed import HandedFiles
from nki_agent.task.sampler import index_values
from nki_agent.task.tensors import find_torch_dtype
from nki_agent.task.torch_module import find_weights, make_module
from nki_agent.task.torch_reference import settled
from nki_agent.task.userfile import read_user_file
from nki_agent.task.values import is_tensor

META = "meta"
SEED = 0
FILE = Path("/corpus/task.py")
"""Where a text seems to lie."""
OCTAVES = 3
"""Sizes within a factor of 8 are of one regime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What was followed."""

    nodes: Sequence[Node]
    outputs: tuple[int, ...]
    regime: str
    """The sizes of the inputs where speed counts, coarsely."""


def trace_task(source: str | Path) -> Trace:
    """Follow the reference of a task file.

    Raises:
        TaskError: the file cannot be used.
        GraphError: it cannot be followed without data.
    """
    handed = HandedFiles(source=source, modules={}) if isinstance(source, str) else None
    path = FILE if isinstance(source, str) else source
    user = read_user_file(path, handed=handed)
    try:
        return _trace(find_form(user))
    finally:
        # Each file that is loaded leaves a module behind; thousands of them fill the memory.
        sys.modules.pop(user.module.__name__, None)


def _trace(form: FileForm) -> Trace:
    follower = Follower()
    with settled(), torch.device(META):
        run = _run_declared if form.declared is not None else _run_given
        try:
            outputs, regime = run(form, follower)
            places = tuple(follower.read(output) for output in outputs)
        except TaskError as error:
            if isinstance(cause := error.__cause__, GraphError):
                raise cause from error
            raise
        except ValueError as error:
            raise GraphError(f"{form.user.path.name}: {error}") from error
    return Trace(nodes=follower.nodes.nodes, outputs=places, regime=regime)


Found = tuple[list[torch.Tensor], str]


def _run_declared(form: FileForm, follower: Follower) -> Found:
    declared = form.declared
    assert declared is not None
    # Sizes that differ tell axes apart.
    sizes = declared.shapes.get(ODD, declared.shapes[DEV])
    values = {name: _make_bare(d, sizes) for name, d in declared.inputs.items()}
    entry = form.entry
    if form.is_module:
        wanted = _parameters_of(entry)
        with form.user.running(f"`{form.name}(...)`"):
            entry = entry(**{name: sizes[name] for name in wanted if name in sizes})
            entry.eval()
    outputs = _follow(form, entry, follower, named=values)
    return outputs, _find_regime(declared)


def _parameters_of(entry: Any) -> tuple[str, ...]:
    code = entry.__init__.__code__ if hasattr(entry.__init__, "__code__") else None
    return () if code is None else code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]


def _make_bare(declaration: Declaration, sizes: Mapping[str, int]) -> torch.Tensor:
    name = declaration.dtype.value.replace("float8_e4m3", "float8_e4m3fn").replace("fnfn", "fn")
    dtype = find_torch_dtype(name) or torch.float32
    return torch.empty(declaration.shape_at(sizes), dtype=dtype)


def _find_regime(declared: Declared) -> str:
    sizes = declared.shapes.get(PERF, declared.shapes[DEV])
    tensors = [*declared.inputs.values(), *declared.parameters.values()]
    return _regime_of([d.shape_at(sizes) for d in tensors])


def _regime_of(shapes: Sequence[Sequence[int]]) -> str:
    """Ranks and orders of magnitude, whatever the order of the inputs."""
    found = sorted(",".join(str(int(math.log2(n)) // OCTAVES) for n in shape) for shape in shapes)
    return " ".join(found)


def _run_given(form: FileForm, follower: Follower) -> Found:
    assert form.inputs is not None
    values = index_values(form.inputs(SEED))
    tensors = [value for value in values.values() if is_tensor(value)]
    if tensors and not any(isinstance(value, torch.Tensor) for value in tensors):
        shapes = [tuple(value.shape) for value in tensors]
        return run_numpy(form, values, follower), _regime_of(shapes)
    entry = _make_module(form) if form.is_module else form.entry
    given: list[Any] = []
    for value in values.values():
        is_there = isinstance(value, torch.Tensor) and value.device.type != META
        given.append(value.to(META) if is_there else value)
    bare = dict(zip(values, given, strict=True))
    is_named = any(isinstance(key, str) for key in bare)
    outputs = _follow(form, entry, follower, named=bare if is_named else None, given=given)
    return outputs, _regime_of([tuple(t.shape) for t in given if isinstance(t, torch.Tensor)])


def _make_module(form: FileForm) -> torch.nn.Module:
    """Without memory; with it where the constructor asks for values."""
    try:
        return make_module(form, seed=SEED)
    except TaskError:
        with torch.device("cpu"):
            return make_module(form, seed=SEED).to(META)


def _follow(
    form: FileForm,
    entry: Any,
    follower: Follower,
    *,
    named: Mapping[Any, Any] | None = None,
    given: Sequence[Any] = (),
) -> list[torch.Tensor]:
    tensors = [v for v in (named.values() if named is not None else given) if is_tensor(v)]
    weights = find_weights(entry) if isinstance(entry, torch.nn.Module) else []
    for tensor in (*tensors, *(w.tensor for w in weights)):
        if tensor.device.type == META:
            follower.give(tensor)
    with _quiet(), form.user.running("the reference"), Before(), follower:
        result = entry(**named) if named is not None else entry(*given)
    outputs = list(_list_tensors(result))
    updated = [v for k, v in (named or {}).items() if k in form.settings.updates]
    return [*outputs, *updated]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A meta tensor's kernels warn of what nobody can change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _list_tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _list_tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _list_tensors(item)
