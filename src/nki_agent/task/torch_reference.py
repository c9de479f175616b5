"""A PyTorch module or function as a reference. Needs PyTorch.

In a wider precision the same code runs on wider tensors, and what it asks for in a narrower real
dtype (`.float()`, `dtype=torch.float32`) is widened too; it still sees its own dtype when it asks a
tensor for it, so that branches and epsilons stay the same. 8-bit floats stay: they quantise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as nnf
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from nki_agent.base.errors import TaskError
from nki_agent.isa.dtype import DType
from nki_agent.task.binding import Binding, Call
from nki_agent.task.record import EXPONENTIALS, ROWS_OF_EXPONENTIALS, Record
from nki_agent.task.reference import Precision, Reach, Results
from nki_agent.task.task import TensorArgument
from nki_agent.task.tensors import find_torch_dtype, to_array, to_tensor, to_wide
from nki_agent.task.torch_record import TorchRecorder
from nki_agent.task.userfile import ONE_AT_A_TIME

Array = NDArray[Any]

_REALS = frozenset({torch.float32, torch.bfloat16, torch.float16})
_CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)
_DTYPE_OF = torch.Tensor.dtype.__get__  # type: ignore[attr-defined]
_RMS_NORMS = (nnf.rms_norm, torch.rms_norm)
_RMS_EPS_INDEX = 3
MASKED = -1e4
"""Scores from here down were masked."""
HALVES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A parameter or buffer: the argument, and the tensor in the module that takes its values."""

    argument: TensorArgument
    tensor: torch.Tensor
    native_shape: tuple[int, ...]
    is_saved: bool = True
    """Whether it is in the `state_dict`; others may be left out of the arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchReference:
    """Runs `entry`: a module in eval mode, or a function."""

    entry: Callable[..., object]
    call: Call
    weights: tuple[Weight, ...] = ()
    own_dtype: torch.dtype = field(default=torch.float32)
    """What the reference sees as the dtype of its reals."""

    def run(self, inputs: Mapping[str, Array], *, precision: Precision) -> Results:
        """Run on copies of the inputs, on one thread, without gradients."""
        values = self._load(inputs, precision)
        with settled(), _precise(precision, self.own_dtype):
            outputs = self.call.run(self.entry, values)
        kept = (b.argument.name for b in self.call.bindings() if b.argument.is_updated)
        return _results(outputs, {name: values[name] for name in kept})

    def find_reach(self, inputs: Mapping[str, Array]) -> Reach:
        """How far the arguments of exponentials go in a run in float64."""
        values = self._load(inputs, Precision.DOUBLE)
        watching = _Watching()
        wide = _precise(Precision.DOUBLE, self.own_dtype)
        with settled(), wide, sdpa_kernel(SDPBackend.MATH), watching:
            self.call.run(self.entry, values)
        return Reach(watching.highest, watching.lowest_row, min(watching.leads))

    def record(self, inputs: Mapping[str, Array]) -> tuple[Results, Record]:
        """Run in its own precision and follow each operation, where PyTorch lets it be followed."""
        try:
            return self._follow(inputs)
        except TaskError:
            # Some operations refuse to be followed; a plain run tells that from the file's fault.
            values = self._load(inputs, Precision.OWN)
            with settled():
                outputs = self.call.run(self.entry, values)
            return _results(outputs, values), Record()

    def _follow(self, inputs: Mapping[str, Array]) -> tuple[Results, Record]:
        values = self._load(inputs, Precision.OWN)
        named = values | {w.argument.name: w.tensor for w in self.weights}
        recorder = TorchRecorder(named)
        with settled(), recorder:
            outputs = self.call.run(self.entry, values)
        tensors = {n: t for n, t in outputs.items() if isinstance(t, torch.Tensor)}
        return _results(outputs, values), recorder.finish(tensors)

    def _load(self, inputs: Mapping[str, Array], precision: Precision) -> dict[str, torch.Tensor]:
        for weight in self.weights:
            if not weight.is_saved and weight.argument.name not in inputs:
                continue
            array = inputs[weight.argument.name].reshape(weight.native_shape)
            weight.tensor.data = _native(
                array, weight.tensor.dtype, weight.argument.dtype, precision
            )
        return {b.argument.name: _bound(inputs, b, precision) for b in self.call.bindings()}


def own_dtype_of(dtype: DType | None) -> torch.dtype:
    """What the reference sees as its real dtype; float32 where PyTorch has no such format."""
    found = None if dtype is None else find_torch_dtype(dtype.value)
    return found or torch.float32


def _bound(inputs: Mapping[str, Array], binding: Binding, precision: Precision) -> torch.Tensor:
    array = inputs[binding.argument.name].reshape(binding.native_shape)
    native = find_torch_dtype(binding.native_dtype) or torch.float32
    return _native(array, native, binding.argument.dtype, precision)


def _native(array: Array, native: torch.dtype, stored: DType, precision: Precision) -> torch.Tensor:
    if not stored.is_float:
        return to_tensor(array).to(native)
    match precision:
        case Precision.OWN:
            return to_tensor(_as_native(array, stored))
        case Precision.SINGLE:
            return to_wide(array, np.float32)
        case Precision.DOUBLE:
            return to_wide(array, np.float64)


def _as_native(array: Array, stored: DType) -> Array:
    """PyTorch has the OCP form of this 8-bit float only; every value of ours is one of its."""
    if stored is DType.FLOAT8_E4M3:
        return array.astype(DType.FLOAT8_E4M3FN.numpy_dtype)
    return array


def _results(outputs: Mapping[str, Any], values: Mapping[str, torch.Tensor]) -> Results:
    return Results(
        outputs={n: _as_array(v) for n, v in outputs.items()},
        inputs={n: to_array(v) for n, v in values.items()},
    )


def _as_array(value: Any) -> Array:
    return to_array(value) if isinstance(value, torch.Tensor) else np.array(value)


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """No gradients, one thread, and no fused transformer paths that hide their matmuls."""
    with ONE_AT_A_TIME, torch.no_grad():
        threads = torch.get_num_threads()
        fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.set_num_threads(1)
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.backends.mha.set_fastpath_enabled(fast_path)


@contextlib.contextmanager
def _precise(precision: Precision, own: torch.dtype) -> Iterator[None]:
    if precision is Precision.OWN:
        yield
        return
    wide = torch.float64 if precision is Precision.DOUBLE else torch.float32
    default = torch.get_default_dtype()
    torch.set_default_dtype(wide)
    try:
        with _Widening(own, wide=wide):
            yield
    finally:
        torch.set_default_dtype(default)


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the largest finite argument of all exponentials, and the least of their rows' largest.

    Where exponentials are written out, a row's largest is what a maximum along an axis gives.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.highest = 0.0
        self.lowest_row = 0.0
        self.leads = [0.0, 0.0]

    @staticmethod
    def _should_skip_dynamo() -> bool:
        """PyTorch would import its compiler to skip it: over a second, for nothing."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in EXPONENTIALS and args[0].numel():
            finite = args[0].nan_to_num(0.0, 0.0, 0.0)
            self.highest = max(self.highest, float(finite.max()))
        if name in ROWS_OF_EXPONENTIALS and len(args) > 1 and args[0].numel():
            rows = args[0].amax(args[1])
            seen = rows[rows > MASKED]
            self.lowest_row = min(self.lowest_row, float(seen.min()) if seen.numel() else 0.0)
            self._compare_halves(args[0], args[1])
        return func(*args, **(kwargs or {}))

    def _compare_halves(self, scores: torch.Tensor, dims: Any) -> None:
        """Of rows along one axis; those that are masked in a half tell nothing."""
        (dim, *others) = dims if isinstance(dims, list | tuple) and dims else [dims]
        if others or not isinstance(dim, int) or scores.shape[dim] < HALVES:
            return
        size = scores.shape[dim]
        first = scores.narrow(dim, 0, size // HALVES).amax(dim)
        last = scores.narrow(dim, size // HALVES, size - size // HALVES).amax(dim)
        ahead = (first - last)[(first > MASKED) & (last > MASKED)].nan_to_num(0.0, 0.0, 0.0)
        if ahead.numel():
            self.leads[0] = max(self.leads[0], float(ahead.max()))
            self.leads[1] = max(self.leads[1], float(-ahead.min()))


class _Widening(TorchFunctionMode):
    """Turns every real dtype that the code asks for into a wide one."""

    def __init__(self, own: torch.dtype, *, wide: torch.dtype) -> None:
        super().__init__()
        self._own = own
        self._wide = wide

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func == _DTYPE_OF:
            found = func(*args, **kwargs)
            return self._own if found is self._wide else found
        if func in _CASTS:
            return args[0].to(self._wide)
        args = tuple(self._widen(value) for value in args)
        kwargs = {name: self._widen(value) for name, value in kwargs.items()}
        if (
            func in _RMS_NORMS
            and kwargs.get("eps") is None
            and args[_RMS_EPS_INDEX:] in {(), (None,)}
        ):
            # PyTorch takes float32's for every narrower type, and would take float64's here.
            args = args[:_RMS_EPS_INDEX]
            kwargs["eps"] = torch.finfo(torch.float32).eps
        return func(*args, **kwargs)

    def _widen(self, value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return self._wide if value in _REALS else value
        if type(value) is torch.Tensor and value.dtype in _REALS:
            # A constant of the file that is neither an input nor a weight.
            return value.to(self._wide)
        return value
