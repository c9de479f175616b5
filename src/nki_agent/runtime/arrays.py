"""Arrays of the user's framework in and out: NumPy arrays and torch CPU tensors.

PyTorch is never imported here; a torch tensor can only come from a script that has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.isa.dtype import DType, find_dtype

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
CONVERT = "convert it before the call, for example with `.astype(np.float32)`"
APART = "pass each array as an argument of its own"


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """A tensor argument: the user's object, and its values as a NumPy array that shares them."""

    given: Any
    values: np.ndarray
    dtype: DType

    @property
    def is_torch(self) -> bool:
        """Whether the user passed a torch tensor."""
        return not isinstance(self.given, np.ndarray)


def is_array(value: object) -> bool:
    """Whether a call argument is a tensor to the kernel."""
    return isinstance(value, np.ndarray) or _is_torch_tensor(value)


def _is_torch_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def read_array(name: str, value: Any) -> ArrayArgument:
    """The values of one argument; KernelError for a dtype or device that a kernel cannot take."""
    values = value if isinstance(value, np.ndarray) else _torch_values(name, value)
    dtype = find_dtype(values.dtype)
    if dtype is None:
        raise _refused(name, str(value.dtype), "a dtype of `nki.language`, such as float32")
    if values.ndim == 0 or values.size == 0:
        raise _refused(name, f"shape {values.shape}", "at least one dimension, none of them empty")
    return ArrayArgument(value, values, dtype)


def _torch_values(name: str, tensor: Any) -> np.ndarray:
    torch = sys.modules["torch"]
    plain = tensor.detach()
    if plain.device.type != "cpu":
        raise _refused(name, f"a tensor on {plain.device}", "a CPU tensor")
    if plain.dtype == torch.bfloat16:
        bits: np.ndarray = plain.view(torch.int16).numpy()
        return bits.view(BFLOAT16)
    try:
        values: np.ndarray = plain.numpy()
    except TypeError as error:
        raise _refused(name, str(plain.dtype), "a dtype that NumPy has, or bfloat16") from error
    return values


def _refused(name: str, got: str, limit: str, *, hint: str = CONVERT) -> KernelError:
    return KernelError(
        Diagnostic(
            code="NK112",
            what=f"argument `{name}` of a kernel call",
            got=got,
            limit=limit,
            hint=hint,
        )
    )


def require_static(name: str, value: object) -> None:
    """Refuse lists, and arrays inside of a tuple or dict.

    Raises:
        KernelError: No kernel takes the value as it is.
    """
    if isinstance(value, list):
        raise _refused(name, "a list", "a tuple", hint="pass `tuple(...)` of it")
    inside = value.values() if isinstance(value, dict) else value
    if isinstance(inside, Collection) and any(is_array(item) for item in inside):
        kind = type(value).__name__
        raise _refused(name, f"a {kind} that holds arrays", "plain values", hint=APART)


def make_result(values: np.ndarray, *, as_torch: bool) -> Any:
    """A result in the form of the arguments."""
    if not as_torch:
        return values
    torch: Any = sys.modules["torch"]
    if values.dtype == BFLOAT16:
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(values)
