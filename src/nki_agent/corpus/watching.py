"""Runs a reference operation by operation: flat functions, and steps that change nothing.

Law: a step is redundant if the outputs stay the same to the last digits of float64 when it hands
its first operand on. Constants that guard a division or a root, and shifts that keep an exponential
finite, are no redundant steps. Needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from nki_agent.task.reference import Precision
from nki_agent.task.task import ShapeSet
from nki_agent.task.trial import arrange

Array = NDArray[Any]

FLAT_SHARE = 0.9
"""Part of a function's values that may lie where it is flat."""
_AT_BOUND = 1e-4
_SAME = 1e-12
_GUARD_MAX = 1e-2
"""Scalars up to this size are guards."""
_STEPS_MAX = 24
_SIZE_MIN = 16
_BOUNDS: dict[str, tuple[float, float]] = {
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "_softmax": (0.0, 1.0),
    "hardsigmoid": (0.0, 1.0),
}
_AT_ZERO = frozenset({"relu", "threshold", "hardshrink", "softshrink"})
_STEPS = frozenset(
    {"abs", "add", "ceil", "clamp", "clamp_max", "clamp_min", "cumsum", "cumprod", "div", "exp"}
    | {"floor", "hardtanh", "leaky_relu", "maximum", "minimum", "mul", "neg", "pow", "reciprocal"}
    | {"relu", "round", "sign", "sort", "sqrt", "square", "tril", "triu", "trunc", "where"}
    | {"flip", "roll", "_softmax"}
)
"""Operations whose result may be replaced by an operand of the same shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a run has shown."""

    flat: str
    """The function that is flat on nearly all of its operands, with the share; empty if none."""
    steps: tuple[tuple[int, str], ...]
    """Numbers and names of the operations that may be left out."""
    wanted: Mapping[str, Array]
    """Outputs and updated inputs."""


def watch(shapes: ShapeSet, inputs: Mapping[str, Array]) -> Seen:
    """Run the reference once in float64."""
    watcher = _Watcher()
    with watcher:
        found = shapes.reference.run(inputs, precision=Precision.DOUBLE)
    wanted = {} if watcher.flat else arrange(shapes, found)
    return Seen(flat=watcher.flat, steps=tuple(watcher.steps), wanted=wanted)


def find_redundant(shapes: ShapeSet, inputs: Mapping[str, Array], seen: Seen) -> str:
    """The first operation that changes nothing; empty where each one matters."""
    chosen = seen.steps[:: max(1, len(seen.steps) // _STEPS_MAX)]
    for number, name in chosen:
        with _Leaving(number):
            found = shapes.reference.run(inputs, precision=Precision.DOUBLE)
        outputs = {**found.outputs, **found.inputs}
        if all(
            _is_same(outputs[key], array) for key, array in seen.wanted.items() if key in outputs
        ):
            return f"step {number}, `{name}`"
    return ""


def _is_same(found: Array, wanted: Array) -> bool:
    if found.size != wanted.size:
        return False
    left = found.reshape(-1).astype(np.float64)
    right = wanted.reshape(-1).astype(np.float64)
    # No BLAS: its threads would wait for each other where several workers look at candidates.
    error = left - right
    return bool(np.vecdot(error, error) <= _SAME**2 * np.vecdot(right, right))


class _Watcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flat = ""
        self.steps: list[tuple[int, str]] = []
        self._count = -1
        self._before = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._count += 1
        name, before = _name(func), self._before
        self._before = name
        if name == "mul" and before == "reciprocal":
            return result  # PyTorch's own way to write `1 / x`
        if isinstance(result, torch.Tensor):
            share = _share_flat(name, result)
            if share > FLAT_SHARE and not self.flat:
                self.flat = f"`{name}` is flat on {share:.0%} of its values"
            other = _replacement(args, result) if name in _STEPS else None
            # The largest of magnitudes is often that of the values, which makes no step redundant.
            if other is not None and (name != "abs" or torch.equal(other, result)):
                self.steps.append((self._count, name))
        return result


class _Leaving(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands on the first operand of one operation."""

    def __init__(self, number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._number = number
        self._count = -1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._count += 1
        if self._count == self._number:
            other = _replacement(args, result)
            return result if other is None else other.clone()
        return result


def _name(func: Any) -> str:
    name: str = func._schema.name.removeprefix("aten::")
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _replacement(args: Any, result: Any) -> torch.Tensor | None:
    """The first operand of the result's shape and dtype, unless the step is a guard."""
    scalars = [a for a in args if isinstance(a, int | float) and not isinstance(a, bool)]
    if scalars and all(abs(s) <= _GUARD_MAX for s in scalars):
        return None
    for tensor in _tensors(args):
        if tensor.shape == result.shape and tensor.dtype == result.dtype:
            return tensor
    return None


def _tensors(args: Any) -> Iterator[torch.Tensor]:
    for value in args:
        if isinstance(value, torch.Tensor):
            yield value


def _share_flat(name: str, result: torch.Tensor) -> float:
    if result.numel() < _SIZE_MIN or not result.is_floating_point():
        return 0.0
    if name in _AT_ZERO:
        return float((result == 0).double().mean())
    bounds = _BOUNDS.get(name)
    if bounds is None:
        return 0.0
    low, high = bounds
    if name == "_softmax":
        # One-hot rows: the largest share is all there is.
        return float((result.amax(-1) > high - _AT_BOUND).double().mean())
    near = (result < low + _AT_BOUND) | (result > high - _AT_BOUND)
    return float(near.double().mean())
