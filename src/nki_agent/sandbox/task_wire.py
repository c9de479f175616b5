"""What the trusted process and the process of an untrusted task say to each other.

Law: all that comes from the task is data of a declared type. An array is a dtype by name, a shape
and bytes; it becomes an array only where dtype, shape and length are what was expected, and where
each boolean is 0 or 1, so that NumPy is never given bytes that it can't take.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final

import ml_dtypes
import msgspec
import numpy as np
from numpy.typing import NDArray

from nki_agent.task.family import FamilyScale
from nki_agent.task.reference import Precision

Array = NDArray[Any]

_NATIVE: Final = ("float64", "float32", "float16", "bool", "int8", "uint8", "int16", "uint16")
_WIDE: Final = ("int32", "uint32", "int64", "uint64")
_NARROW: Final = ("bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
DTYPES: Final[dict[str, np.dtype[Any]]] = {
    **{name: np.dtype(name) for name in (*_NATIVE, *_WIDE)},
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in _NARROW},
}
"""Every dtype that may be sent; none holds an object."""


class WireError(Exception):
    """The other side sent what it may not."""


class PackedArray(msgspec.Struct, frozen=True, array_like=True):
    """An array."""

    dtype: str
    shape: tuple[int, ...]
    data: bytearray


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """The text of a task file and of the modules beside it; answered by a `TaskRecord`."""

    name: str
    source: str
    modules: dict[str, str]
    packages: tuple[str, ...]


class DrawRequest(msgspec.Struct, frozen=True, kw_only=True, tag="draw"):
    """The inputs of one trial; answered by an `ArraysReply`."""

    shapes: str
    seed: int
    scale: FamilyScale


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, tag="run"):
    """One run of the reference; answered by an `ArraysReply`."""

    shapes: str
    precision: Precision
    inputs: dict[str, PackedArray]


class ArraysReply(msgspec.Struct, frozen=True, kw_only=True, tag="arrays"):
    """Arrays by name."""

    outputs: dict[str, PackedArray]
    inputs: dict[str, PackedArray] = {}


class FaultReply(msgspec.Struct, frozen=True, kw_only=True, tag="fault"):
    """The task cannot be used: what a TaskError says."""

    message: str
    hint: str = ""


Request = LoadRequest | DrawRequest | RunRequest


def pack(array: Array) -> PackedArray:
    """The array as data; WireError where its dtype has no name here."""
    name = array.dtype.name
    if DTYPES.get(name) != array.dtype:
        raise WireError(f"an array of {clean_name(name)}")
    return PackedArray(name, array.shape, bytearray(np.ascontiguousarray(array).tobytes()))


def unpack(
    packed: PackedArray, *, shape: tuple[int, ...], dtypes: Collection[np.dtype[Any]]
) -> Array:
    """The array, writable, if it has that shape and one of these dtypes; else WireError."""
    dtype = DTYPES.get(packed.dtype)
    if dtype is None or dtype not in dtypes:
        wanted = " or ".join(sorted(d.name for d in dtypes))
        raise WireError(f"{clean_name(packed.dtype)} instead of {wanted}")
    if packed.shape != shape:
        raise WireError(f"the shape {list(packed.shape[:8])} instead of {list(shape)}")
    if len(packed.data) != math.prod(shape) * dtype.itemsize:
        raise WireError(f"{len(packed.data)} bytes for {dtype.name}{list(shape)}")
    array = np.frombuffer(packed.data, dtype=np.uint8)
    if dtype == np.bool_ and array.size and array.max() > 1:
        raise WireError("booleans that are neither 0 nor 1")
    return array.view(dtype).reshape(shape)


def clean_name(name: str) -> str:
    """A short name of a dtype, whatever was sent for one."""
    return name[:32] if name.isascii() and name.isprintable() else "an unknown dtype"
