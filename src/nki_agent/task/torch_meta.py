"""A declared PyTorch reference without data: its weights, outputs and work from shapes alone.

Law: a module is made without memory, so that its perf shapes cost none until it is run; then its
weights get memory that holds nothing, since every value comes from a trial. Needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nki_agent.base.errors import TaskError
from nki_agent.isa.dtype import DType
from nki_agent.task.binding import Call
from nki_agent.task.form import FileForm
from nki_agent.task.record import Record
from nki_agent.task.task import TensorArgument
from nki_agent.task.tensors import dtype_name, find_torch_dtype
from nki_agent.task.torch_module import FoundWeight, find_weights
from nki_agent.task.torch_record import TorchRecorder
from nki_agent.task.torch_reference import TorchReference, Weight, own_dtype_of, settled

META = "meta"
Found = list[tuple[tuple[int, ...], str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """A reference whose tensors have shapes and no memory."""

    entry: Callable[..., object]
    call: Call
    weights: tuple[Weight, ...]

    def follow(self) -> tuple[Found, Record]:
        """Run it on shapes: shape and dtype of each output, and what it did.

        Raises:
            TaskError: the reference raised, or needs values to run.
        """
        values = {
            b.argument.name: torch.empty(
                b.native_shape, dtype=find_torch_dtype(b.native_dtype), device=META
            )
            for b in self.call.bindings()
        }
        recorder = TorchRecorder(values | {w.argument.name: w.tensor for w in self.weights})
        with settled(), torch.device(META), recorder:
            outputs = self.call.run(self.entry, values)
        tensors = {n: t for n, t in outputs.items() if isinstance(t, torch.Tensor)}
        record = recorder.finish(tensors)
        return [(tuple(t.shape) or (1,), _stored_name(t)) for t in tensors.values()], record

    def give_memory(self) -> TorchReference:
        """The same reference with memory for its weights; nothing is written to it yet."""
        weights = self.weights
        if isinstance(self.entry, nn.Module):
            self.entry.to_empty(device="cpu")
            tensors = {w.original: w.tensor for w in find_weights(self.entry)}
            weights = tuple(
                Weight(
                    argument=w.argument,
                    tensor=tensors[w.argument.original],
                    native_shape=w.native_shape,
                )
                for w in self.weights
            )
        stored = [
            *(b.argument.dtype for b in self.call.bindings()),
            *(w.argument.dtype for w in weights),
        ]
        real = next((d for d in stored if d.is_float and d.itemsize > 1), None)
        return TorchReference(
            entry=self.entry, call=self.call, weights=weights, own_dtype=own_dtype_of(real)
        )


def make_bare(
    form: FileForm,
    given: Mapping[str, int],
    *,
    parameters: Sequence[TensorArgument],
    call: Call,
) -> Bare:
    """Make the module without memory, and pair its weights with what is declared.

    Raises:
        TaskError: the constructor raised, or its weights are not those that are declared.
    """
    if not form.is_module:
        _match((), parameters, file=form.user.path.name)
        return Bare(entry=form.entry, call=call, weights=())
    with torch.device(META), form.user.running(f"`{form.name}(...)`"):
        module = form.entry(**given)
        module.eval()
    weights = _match(find_weights(module), parameters, file=form.user.path.name)
    return Bare(entry=module, call=call, weights=weights)


def _match(
    found: Sequence[FoundWeight], parameters: Sequence[TensorArgument], *, file: str
) -> tuple[Weight, ...]:
    """Weights in the order of the module."""
    declared = {argument.original: argument for argument in parameters}
    has = {weight.original for weight in found}
    for name in (*(n for n in declared if n not in has), *(n for n in has if n not in declared)):
        where = (
            "PARAMETERS, but the module has no such weight" if name in declared else "the module"
        )
        raise TaskError(
            f"{file}: `{name}` is in {where}",
            hint="declare every parameter, buffer and tensor attribute of the module in PARAMETERS",
        )
    weights = []
    for weight in found:
        argument = declared[weight.original]
        shape, dtype = tuple(weight.tensor.shape), dtype_name(weight.tensor.dtype)
        if (shape or (1,)) != argument.shape or dtype != _native_name(argument.dtype):
            raise TaskError(
                f"{file}: `{weight.original}` is {dtype}{list(shape)} in the module, but "
                f"{argument.dtype.value}{list(argument.shape)} in PARAMETERS",
                hint="make both the same",
            )
        weights.append(Weight(argument=argument, tensor=weight.tensor, native_shape=shape))
    return tuple(weights)


def _native_name(dtype: DType) -> str:
    """PyTorch's name: it has one form of 8-bit floats with three bits, and `bool`."""
    match dtype:
        case DType.FLOAT8_E4M3:
            return DType.FLOAT8_E4M3FN.value
        case DType.BOOL:
            return "bool"
        case _:
            return dtype.value


def _stored_name(tensor: Any) -> str:
    """The dtype that an output is stored in."""
    name = dtype_name(tensor.dtype)
    return {"int64": DType.INT32.value, "bool": DType.BOOL.value}.get(name, name)
