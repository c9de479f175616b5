"""Follows one run of a PyTorch reference, operation by operation. Needs PyTorch.

Each operation is seen below autograd and Python, where views, matmuls and reductions have fixed
names. An argument is followed by its storage, through views.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nki_agent.isa.dtype import find_dtype
from nki_agent.task.record import Record, count
from nki_agent.task.tensors import dtype_name
from nki_agent.task.window import Window

# fmt: off
_MOVES = frozenset({
    "alias", "arange", "as_strided", "cat", "clone", "contiguous", "copy", "detach", "diagonal",
    "embedding", "empty", "empty_like", "empty_strided", "expand", "eye", "fill", "flip",
    "full", "full_like", "gather", "index", "index_put", "index_select", "lift", "lift_fresh",
    "narrow", "new_empty", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "permute",
    "pixel_shuffle", "pixel_unshuffle", "repeat", "reshape", "roll", "scalar_tensor", "scatter",
    "select", "select_scatter", "slice", "slice_scatter", "split", "split_with_sizes",
    "squeeze", "stack", "t", "transpose", "unbind", "unfold", "unsqueeze", "view", "view_as",
    "_reshape_alias", "_to_copy", "_unsafe_view", "zero", "zeros", "zeros_like",
})
# fmt: on
_PADS = ("constant_pad", "reflection_pad", "replication_pad")
# Outputs hold inputs' values or integers: nothing is rounded.
# fmt: off
_SELECTS = frozenset({
    "abs", "amax", "amin", "argmax", "argmin", "argsort", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "clamp", "clamp_max", "clamp_min", "cummax", "cummin",
    "_cummax_helper", "_cummin_helper", "eq", "ge", "gt", "hardtanh", "kthvalue", "le",
    "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "masked_fill", "max",
    "max_pool2d_with_indices", "max_pool3d_with_indices", "maximum", "min", "minimum", "ne",
    "neg", "relu", "sort", "topk", "tril", "triu", "where",
})
# fmt: on
_LEADING_AXES = 2
"""Batch and channels, in front of those that a convolution moves along."""
_GATHERS = frozenset({"embedding", "gather", "index", "index_select"})
# Operations whose sum runs over the last axis or over axes that their output keeps.
_ROW_SUMS = frozenset({"_softmax", "_log_softmax", "cumsum", "logcumsumexp", "native_layer_norm"})
# fmt: off
_SUMS = frozenset({
    "sum", "mean", "var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm",
    "logsumexp", "nansum", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d",
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "nll_loss_forward", "mse_loss",
})
# fmt: on


class TorchRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Fills a Record while it is active. `arguments` are the tensors of the task by name."""

    def __init__(self, arguments: Mapping[str, torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.record = Record(touched={}, only_moves=True, is_exact=True)
        self._names = {_storage(tensor): name for name, tensor in arguments.items()}
        self._known = set(self._names)
        self._sources: dict[int, torch.dtype] = {}
        """The format that a widened tensor's values came in, by its storage."""

    @staticmethod
    def _should_skip_dynamo() -> bool:
        """PyTorch would import its compiler to skip it: over a second, for nothing."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        if name.endswith("_") and not name.endswith("__"):
            name = name[:-1]
        tensors = list(_tensors((args, kwargs or {})))
        outputs = list(_tensors(result))
        self._note_hidden(name, tensors)
        self._known.update(_storage(t) for t in outputs)
        if func.is_view:
            return result
        self._note_source(name, tensors, outputs)
        self.record.ops.add(name)
        is_matmul = self._note_matmul(name, args, outputs)
        self._note_rounding(name, tensors, outputs)
        self._note_reads(
            name,
            func,
            tensors,
            num_read=_count_read(name, args, outputs),
            is_compute=not is_matmul and not is_move(name),
        )
        self._note_depth(name, tensors, outputs)
        return result

    def _note_rounding(
        self, name: str, tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> None:
        record = self.record
        if not is_move(name):
            record.only_moves = False
            record.is_exact &= name in _SELECTS
        if name == "_to_copy" and tensors[0].is_floating_point():
            source, target = tensors[0].dtype, outputs[0].dtype
            record.is_exact &= source == target
            record.quantises |= target.is_floating_point and target.itemsize == 1

    def finish(self, outputs: Mapping[str, torch.Tensor]) -> Record:
        """Close the record: an output that is a view of an argument reads that argument."""
        for tensor in outputs.values():
            if name := self._names.get(_storage(tensor)):
                assert self.record.touched is not None
                count(self.record.touched, name, tensor.numel())
        return self.record

    def _note_hidden(self, name: str, tensors: list[torch.Tensor]) -> None:
        if name in {"lift_fresh", "lift"}:
            return
        for tensor in tensors:
            if _storage(tensor) not in self._known:
                self._known.add(_storage(tensor))
                self.record.hidden_shapes.append(tuple(tensor.shape))

    def _note_reads(
        self,
        name: str,
        func: Any,
        tensors: list[torch.Tensor],
        *,
        num_read: int | None,
        is_compute: bool,
    ) -> None:
        touched = self.record.touched
        assert touched is not None
        destinations = _written(func, tensors)
        for index, tensor in enumerate(tensors):
            argument = self._names.get(_storage(tensor))
            if argument is None:
                continue
            elems = tensor.numel()
            if index in destinations:
                count(self.record.written, argument, elems)
                if name == "copy":
                    continue
            if index == 0 and num_read is not None:
                elems = min(elems, num_read)
            count(touched, argument, elems)
            if is_compute:
                count(self.record.computed, argument, elems)

    def _note_matmul(self, name: str, args: Any, outputs: list[torch.Tensor]) -> bool:
        found = _count_matmul(name, args, outputs)
        if found is None:
            return False
        operands, depth, macs = found
        # An operand that was only widened can be multiplied in the format that it came in.
        formats = (self._sources.get(_storage(t), t.dtype) for t in operands)
        dtype = find_dtype(dtype_name(max(formats, key=lambda d: d.itemsize)))
        if dtype is not None:
            self.record.add_matmul(dtype, flops=2 * macs, depth=depth)
        return True

    def _note_source(
        self, name: str, tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> None:
        for output in outputs:
            self._sources.pop(_storage(output), None)
        if name not in {"_to_copy", "clone"} or not outputs[0].is_floating_point():
            return
        source = self._sources.get(_storage(tensors[0]), tensors[0].dtype)
        if not source.is_floating_point:
            # Whole numbers of 8 bits are exact in it; longer ones need all that they were cast to.
            source = torch.bfloat16 if source.itemsize == 1 else outputs[0].dtype
        if source.itemsize < outputs[0].dtype.itemsize:
            self._sources[_storage(outputs[0])] = source

    def _note_depth(
        self, name: str, tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> None:
        if not tensors or not outputs:
            return
        depth = 1
        if name in _ROW_SUMS:
            depth = tensors[0].shape[-1] if tensors[0].dim() else 1
        elif name in _SUMS:
            depth = tensors[0].numel() // max(1, outputs[0].numel())
        elif name in {"native_group_norm", "native_batch_norm"}:
            depth = tensors[0].numel() // max(1, outputs[-1].numel())
        self.record.depth = max(self.record.depth, depth)


def is_move(name: str) -> bool:
    """Whether the operation only moves data; `name` is as PyTorch's dispatcher gives it."""
    return name in _MOVES or name.startswith(_PADS)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)


def _written(func: Any, tensors: list[torch.Tensor]) -> set[int]:
    """Positions among the tensors that the operation writes: only ever its first one, `self`."""
    first = func._schema.arguments[:1]
    writes = bool(first and first[0].alias_info and first[0].alias_info.is_write)
    return {0} if writes and tensors else set()


def _count_read(name: str, args: Any, outputs: list[torch.Tensor]) -> int | None:
    """Elements of its first operand that an operation needs; None where it needs them all."""
    if name in _GATHERS:
        return sum(output.numel() for output in outputs)
    if name == "convolution" and not _is_transposed(args):
        channels: int = math.prod(args[0].shape[:2])
        return channels * _window_of(args, outputs[0]).count_read()
    return None


def _count_matmul(
    name: str, args: Any, outputs: list[torch.Tensor]
) -> tuple[tuple[torch.Tensor, ...], int, int] | None:
    """The operands, the depth of the sum, and the multiply-adds; None for other operations."""
    if name in {"mm", "bmm", "mv", "dot", "vdot", "_int_mm", "linear"}:
        depth = args[0].shape[-1]
        return args[:2], depth, outputs[0].numel() * depth
    if name in {"addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"}:
        depth = args[1].shape[-1]
        return args[1:3], depth, outputs[0].numel() * depth
    if name == "convolution":
        return _count_convolution(args, outputs[0])
    if "scaled_dot_product" in name:
        query, key, value = args[:3]
        scores = math.prod(query.shape[:-1]) * key.shape[-2]
        return (
            (query, key, value),
            max(key.shape[-2], query.shape[-1]),
            scores * (query.shape[-1] + value.shape[-1]),
        )
    if name == "mkldnn_rnn_layer":
        steps = math.prod(args[0].shape[:-1])
        weights = args[1].numel() + args[2].numel()
        return args[:3], max(args[1].shape[-1], args[2].shape[-1]), steps * weights
    return None


def _count_convolution(
    args: Any, output: torch.Tensor
) -> tuple[tuple[torch.Tensor, ...], int, int]:
    data, weight = args[:2]
    places = math.prod(weight.shape[:2]) * data.shape[0]
    macs = places * _window_of(args, output).count_taps()
    if _is_transposed(args):
        return (data, weight), max(1, macs // max(1, output.numel())), macs
    return (data, weight), math.prod(weight.shape[1:]), macs


def _is_transposed(args: Any) -> bool:
    return bool(args[6])


def _window_of(args: Any, output: torch.Tensor) -> Window:
    data, weight, _, stride, padding, dilation = args[:6]
    small, large = (data, output) if _is_transposed(args) else (output, data)
    axes = weight.dim() - _LEADING_AXES
    stride, padding, dilation = (
        tuple(value) * (axes if len(value) == 1 else 1) for value in (stride, padding, dilation)
    )
    return Window(
        steps=small.shape[_LEADING_AXES:],
        image=large.shape[_LEADING_AXES:],
        kernel=weight.shape[_LEADING_AXES:],
        stride=stride,
        padding=padding,
        dilation=dilation,
    )
