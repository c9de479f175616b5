"""A NumPy reference, run on PyTorch's own stand-in for NumPy so that it is followed like the rest.

Law: a function of NumPy's that the stand-in has not is refused with its name. Needs PyTorch.
"""

from __future__ import annotations

import contextlib
import importlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from nki_agent.corpus.follow import Before, Follower
from nki_agent.corpus.nodes import GraphError
from nki_agent.task.form import FileForm
from nki_agent.task.tensors import find_torch_dtype
from nki_agent.task.values import is_tensor

torch_numpy: Any = importlib.import_module("torch._numpy")
"""It has no types."""


class _ArrayType(type):
    """What NumPy's own class of arrays is called and asked for."""

    def __call__(cls, shape: Any, dtype: Any = None, **_: Any) -> Any:
        return torch_numpy.empty(shape, dtype=dtype or torch_numpy.float64)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch_numpy.ndarray)


class _Array(metaclass=_ArrayType):
    """Stands for `np.ndarray`."""


class _StandIn:
    """Stands for the module."""

    ndarray = _Array

    def __getattr__(self, name: str) -> Any:
        return getattr(torch_numpy, name)


def run_numpy(form: FileForm, values: Mapping[Any, Any], follower: Follower) -> list[torch.Tensor]:
    """Run the function on arrays without data; its results as tensors."""
    given = {}
    for key, value in values.items():
        if not is_tensor(value):
            given[key] = value
            continue
        dtype = find_torch_dtype(str(value.dtype)) or torch.float32
        tensor = torch.empty(value.shape, dtype=dtype, device="meta")
        follower.give(tensor)
        given[key] = torch_numpy.ndarray(tensor)
    by_name = any(isinstance(key, str) for key in given)
    with _swapped(form.user.module), form.user.running("the reference"), Before(), follower:
        result = form.entry(**given) if by_name else form.entry(*given.values())
    found = list(_list_arrays(result))
    if not found:
        raise GraphError(f"{form.user.path.name}: the reference returns no array")
    return found


def _list_arrays(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch_numpy.ndarray):
        yield value.tensor
    elif isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _list_arrays(item)
    elif isinstance(value, dict):
        yield from _list_arrays(list(value.values()))


@contextlib.contextmanager
def _swapped(module: types.ModuleType) -> Iterator[None]:
    """The file's `np` is the stand-in while its function runs."""
    before = dict(vars(module))
    for name, value in before.items():
        if value is np:
            setattr(module, name, _StandIn())
        elif isinstance(value, np.ndarray):
            tensor = torch.from_numpy(value)
            setattr(module, name, torch_numpy.ndarray(tensor))
    try:
        yield
    finally:
        vars(module).update(before)
