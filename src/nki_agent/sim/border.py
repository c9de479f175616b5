"""Arrays of the caller to buffers of an execution and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nki_agent.isa.dtype import DType
from nki_agent.program.records import Tensor
from nki_agent.sim.rounding import FLOAT, decode, encode
from nki_agent.sim.storage import Place

Array = npt.NDArray[Any]


class Port(NamedTuple):
    """A tensor that crosses the border of an execution; its name is the argument's."""

    name: str
    tensor: Tensor
    place: Place


def load_port(port: Port, arrays: Mapping[str, Array]) -> None:
    """Write an argument's array to its buffer.

    Raises:
        ValueError: it is missing, or has another shape or format than the tensor.
    """
    name, tensor, place = port
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"no array for the argument `{name}`")
    wanted = tensor.dtype.numpy_dtype
    is_bool = array.dtype == np.bool_ and tensor.dtype is DType.BOOL
    if array.shape != tensor.shape or not (array.dtype == wanted or is_bool):
        raise ValueError(
            f"argument `{name}` was traced as {tensor.dtype.value} {list(tensor.shape)},"
            f" the array is {array.dtype} {list(array.shape)}"
        )
    if place.layout.is_carried:
        values = np.ndarray(tensor.shape, FLOAT, place.buffer)
        decode(np.ascontiguousarray(array), tensor.dtype, values)
    else:
        np.ndarray(tensor.shape, wanted, place.buffer)[...] = array


def take_port(port: Port, shape: tuple[int, ...]) -> Array:
    """A new array of the tensor's contents, in its own format."""
    wanted, layout = port.tensor.dtype.numpy_dtype, port.place.layout
    if layout.is_carried and not layout.is_precise:
        return np.ndarray(shape, FLOAT, port.place.buffer).copy()
    if not layout.is_carried or wanted == FLOAT:
        return np.ndarray(shape, wanted, port.place.buffer).copy()
    out = np.empty(shape, wanted)
    encode(np.ndarray(shape, FLOAT, port.place.buffer), port.tensor.dtype, out)
    return out
