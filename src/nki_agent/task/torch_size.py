"""Counts what a PyTorch reference handles in one call, on shapes alone. Needs PyTorch.

Law: on the device `meta` tensors have no memory, so that a task of any size can be counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from nki_agent.task.form import FileForm
from nki_agent.task.torch_module import find_weights, make_module
from nki_agent.task.torch_record import TorchRecorder
from nki_agent.task.torch_reference import settled

SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSize:
    """What one call of a reference handles."""

    elems: int
    """Of the inputs, weights and outputs."""
    work_elems: int
    """Of everything that its operations wrote."""
    flops: int
    """Of matmuls and convolutions."""


class WorkCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the elements that operations write while it is active."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elems = 0

    @staticmethod
    def _should_skip_dynamo() -> bool:
        """PyTorch would import its compiler to skip it: over a second, for nothing."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.elems += sum(t.numel() for t in _tensors(result))
        return result


def find_size(form: FileForm, *, device: str) -> TaskSize | None:
    """One call on a device; None where the inputs are NumPy's.

    Raises:
        TaskError: the file's code raised.
    """
    assert form.inputs is not None, "a file that declares its tensors has their sizes"
    with settled(), torch.device(device):
        values = form.inputs(SEED)
        given = list(_tensors(values))
        if not given and not form.is_module:
            return None
        entry = make_module(form, seed=SEED) if form.is_module else form.entry
        weights = [w.tensor for w in find_weights(entry)] if isinstance(entry, nn.Module) else []
        named = {f"x{index}": tensor for index, tensor in enumerate((*given, *weights))}
        recorder, counter = TorchRecorder(named), WorkCounter()
        with form.user.running("the reference"), recorder, counter:
            result = entry(**values) if isinstance(values, dict) else entry(*values)
    outputs = list(_tensors(result))
    return TaskSize(
        elems=sum(t.numel() for t in (*given, *weights, *outputs)),
        work_elems=counter.elems,
        flops=sum(recorder.record.matmul_flops.values()),
    )


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
