"""Makes the module of a task file and finds its weights. Needs PyTorch.

Law: every parameter and buffer is an argument of the kernel, in `state_dict` order; buffers that
are not saved and plain tensor attributes follow. Left out are counters (integer buffers of rank 0)
and second names of a tied weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from nki_agent.base.errors import TaskError
from nki_agent.isa.dtype import DType
from nki_agent.task.form import FileForm
from nki_agent.task.inputs import seeded
from nki_agent.task.task import TensorKind
from nki_agent.task.tensors import find_torch_dtype
from nki_agent.task.userfile import ONE_AT_A_TIME

_LAZY = (UninitializedParameter, UninitializedBuffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWeight:
    """A parameter or buffer by the name that the module gives it."""

    original: str
    kind: TensorKind
    tensor: torch.Tensor
    is_saved: bool


def make_module(form: FileForm, *, seed: int) -> nn.Module:
    """Construct the module under a seed, in eval mode and in the dtype that the file asks for.

    Raises:
        TaskError: the constructor raised, or the module has no fixed weights yet.
    """
    given = form.init_inputs(seed) if form.init_inputs is not None else ()
    hint = "`get_init_inputs()` gives the arguments of the constructor, in order"
    with ONE_AT_A_TIME, seeded(seed), form.user.running(f"`{form.name}(...)`", hint=hint):
        module = form.entry(**given) if isinstance(given, dict) else form.entry(*given)
        module.eval()
    if any(isinstance(w, _LAZY) for w in (*module.parameters(), *module.buffers())):
        raise TaskError(
            f"{form.user.path.name}: `{form.name}` has lazy layers, whose weights lack a shape",
            hint="give the layers their input sizes",
        )
    if form.settings.dtype is not None:
        _cast(module, form.settings.dtype)
    return module  # type: ignore[no-any-return]


def _cast(module: nn.Module, dtype: DType) -> None:
    wanted = find_torch_dtype(dtype.value) or torch.float32
    for weight in find_weights(module):
        if weight.tensor.is_floating_point() and weight.tensor.element_size() > 1:
            weight.tensor.data = weight.tensor.data.to(wanted)


def find_weights(module: nn.Module) -> list[FoundWeight]:
    """Every weight once."""
    seen: set[int] = set()
    found = []
    for name, tensor, is_saved in _list_tensors(module):
        is_counter = tensor.dim() == 0 and not tensor.is_floating_point()
        if id(tensor) in seen or is_counter:
            continue
        seen.add(id(tensor))
        kind = TensorKind.PARAMETER if isinstance(tensor, nn.Parameter) else TensorKind.BUFFER
        found.append(FoundWeight(original=name, kind=kind, tensor=tensor, is_saved=is_saved))
    return found


def _list_tensors(module: nn.Module) -> Iterator[tuple[str, torch.Tensor, bool]]:
    for name, value in module.state_dict(keep_vars=True).items():
        if isinstance(value, torch.Tensor):
            yield name, value, True
    for name, buffer in module.named_buffers():
        yield name, buffer, False
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                yield f"{prefix}.{name}" if prefix else name, value, False
