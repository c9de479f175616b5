"""Values of a task file to stored arrays: which dtypes are taken, narrowed, or refused."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.isa.dtype import DType, find_dtype

Array = NDArray[Any]

_NARROWED = {"int64": DType.INT32, "uint64": DType.UINT32}
_DTYPE_HINT = (
    "use float32, bfloat16, float16, an 8-bit float, an integer of at most 32 bits or bool, "
    'or set DTYPE = "float32" in the task file'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a value is stored, and how the user's code has it."""

    dtype: DType
    shape: tuple[int, ...]
    native_dtype: str
    native_shape: tuple[int, ...]
    note: str = ""


def has_torch_type(value: object, name: str) -> bool:
    """Whether the value is a `torch.<name>`; False, without an import, where PyTorch is absent."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, name, None)
    return kind is not None and isinstance(value, kind)


def is_tensor(value: object) -> bool:
    """Whether the value is a tensor or an array, or a NumPy scalar that stands for one."""
    return has_torch_type(value, "Tensor") or isinstance(value, np.ndarray | np.generic)


def is_static(value: object) -> TypeGuard[int | float | bool | None]:
    """Whether the value becomes a static argument."""
    return value is None or isinstance(value, bool | int | float)


def to_array(value: Any) -> Array:
    """A copy of a tensor or array as NumPy, in its own dtype."""
    if has_torch_type(value, "Tensor"):
        from nki_agent.task import tensors  # noqa: PLC0415 - PyTorch is optional

        return tensors.to_array(value)
    return np.array(value, order="C", copy=True)


def find_format(array: Array, *, what: str, is_torch: bool, wanted: DType | None) -> Format:
    """The stored format of one input, weight or output.

    `wanted` is the dtype that the task file asks for: reals take it. `what` names the value.

    Raises:
        TaskError: no format of the chip holds the value.
    """
    name = array.dtype.name
    if array.size == 0:
        raise TaskError(
            f"{what} is empty: its shape is {list(array.shape)}",
            hint="every dimension must be at least 1",
        )
    dtype, note = _find_stored(array, what=what, is_torch=is_torch, wanted=wanted)
    return Format(
        dtype=dtype,
        shape=array.shape or (1,),
        native_dtype=name,
        native_shape=array.shape,
        note=note,
    )


def _find_stored(
    array: Array, *, what: str, is_torch: bool, wanted: DType | None
) -> tuple[DType, str]:
    name = array.dtype.name
    if name in _NARROWED:
        return _narrow_integers(array, what=what), ""
    dtype = find_dtype(array.dtype)
    is_real = array.dtype.kind == "f" or (dtype is not None and dtype.is_float)
    if is_real and wanted is not None and array.dtype.itemsize > 1:
        return wanted, ""
    if name == "float64":
        if is_torch:
            raise TaskError(f"{what} has the dtype float64, which the chip lacks", hint=_DTYPE_HINT)
        return DType.FLOAT32, f"{what} is float64, NumPy's default: it is taken as float32"
    if dtype is None:
        raise TaskError(f"{what} has the dtype {name}, which the chip lacks", hint=_DTYPE_HINT)
    return dtype, ""


def _narrow_integers(array: Array, *, what: str) -> DType:
    dtype = _NARROWED[array.dtype.name]
    limits = np.iinfo(dtype.numpy_dtype)
    if array.min() < limits.min or array.max() > limits.max:
        raise TaskError(
            f"{what} holds 64-bit integers up to {array.max()}, and the chip has 32 bits",
            hint=f"keep them between {limits.min} and {limits.max}",
        )
    return dtype


def to_stored(array: Array, dtype: DType) -> Array:
    """The array in its stored dtype and a shape of rank 1 or more; may be the same memory."""
    with np.errstate(over="ignore", invalid="ignore"):
        stored = array.astype(dtype.numpy_dtype, copy=False)
    return stored.reshape(1) if stored.ndim == 0 else np.ascontiguousarray(stored)
