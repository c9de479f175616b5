"""What a task asks of a chip at its perf sizes: the bound on its time, and what it comes from.

Law: `ns` is the judge's own bound, which no kernel can beat. What bounds a task is the largest of
three times of the reference as it is written: its bytes, its products, and a pass of the Vector and
Scalar Engines for each of its element-wise operations. The judge's bound counts one such pass in
all, since a fused kernel may need no more, so by it alone hardly a task were bound by them.
Needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nki_agent.chip.spec import ChipSpec, Target, load_chip
from nki_agent.corpus.record import BoundKind
from nki_agent.cost.bound import Roof, bound_ns
from nki_agent.task.task import Task
from nki_agent.task.torch_record import is_move
from nki_agent.verify.speed import make_work

BOUND_NS = (5_000.0, 5_000_000.0)
"""Shorter ones drown in start-up; longer ones are no kernel that one waits for."""
_PASSES: Mapping[str, float] = MappingProxyType(
    {
        "_softmax": 5,
        "_log_softmax": 5,
        "logsumexp": 4,
        "native_layer_norm": 7,
        "_fused_rms_norm": 4,
        "native_group_norm": 7,
        "native_batch_norm": 7,
        "_native_batch_norm_legit_no_training": 2,
        "var": 3,
        "std": 3,
        "gelu": 2,
        "mish": 3,
        "elu": 3,
        "sort": 8,
        "topk": 4,
        "lerp": 2,
        "addcmul": 2,
        "addcdiv": 2,
        "linalg_vector_norm": 2,
    }
)
_PRODUCTS = frozenset({"mm", "bmm", "mv", "dot", "addmm", "baddbmm", "convolution"})
_SHORT_BYTES = 2
_FAST = 2.0
"""How much faster the engines pass over values of 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The bound of a task on trn2."""

    ns: float
    kind: BoundKind


def measure_effort(task: Task, namespace: Mapping[str, Any]) -> Effort:
    """The task's bound; `namespace` is what its file defines."""
    chip = load_chip(Target.TRN2)
    bound = bound_ns(make_work(task.perf), chip)
    vector_ns = _count_passes(task, namespace) / _elems_per_ns(chip)
    times = {
        BoundKind.MATMUL: bound.parts_ns[Roof.MATMUL],
        BoundKind.VECTOR: vector_ns,
        BoundKind.MEMORY: bound.parts_ns[Roof.BYTES],
    }
    return Effort(ns=bound.ns, kind=max(times, key=lambda kind: times[kind]))


def _elems_per_ns(chip: ChipSpec) -> float:
    return chip.partitions * (chip.vector_clock_ghz + chip.scalar_clock_ghz)


def _count_passes(task: Task, namespace: Mapping[str, Any]) -> float:
    """Elements times passes of the element-wise operations at the perf sizes, without data."""
    sizes = namespace["SHAPES"]["perf"]
    entry = _make_entry(namespace, sizes)
    counter = _Counter()
    with torch.device("meta"), torch.no_grad():
        inputs = [
            torch.empty(t.shape, dtype=_torch_dtype(t.dtype.value), device="meta")
            for t in task.perf.tensors
            if t.kind.value == "input"
        ]
        with counter:
            entry(*inputs)
    return counter.total


def _make_entry(namespace: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    if "reference" in namespace:
        return namespace["reference"]
    model = namespace["Model"]
    code = getattr(model.__init__, "__code__", None)
    wanted = () if code is None else code.co_varnames[1 : code.co_argcount]
    with torch.device("meta"):
        return model(**{name: sizes[name] for name in wanted})


def _torch_dtype(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, "float8_e4m3fn" if name == "float8_e4m3" else name)
    return found


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if func.is_view or is_move(name) or name in _PRODUCTS:
            return result
        tensors = [t for t in (*_flat(args), *_flat((result,))) if isinstance(t, torch.Tensor)]
        if tensors:
            largest = max(tensors, key=lambda t: t.numel())
            rate = _FAST if largest.dtype.itemsize <= _SHORT_BYTES else 1.0
            self.total += _PASSES.get(name, 1) * largest.numel() / rate
        return result


def _flat(values: Any) -> Any:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _flat(value)
        else:
            yield value
