"""Torch tensors to stored arrays and back, without a change of bytes. Needs PyTorch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from nki_agent.task.halves import BFLOAT16, to_single

Array = NDArray[Any]

# Formats that NumPy knows through ml_dtypes only, with the integer of the same width.
_NARROW: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.float8_e8m0fnu: (torch.uint8, ml_dtypes.float8_e8m0fnu),
}
_NARROW_BACK: dict[np.dtype[Any], tuple[Any, torch.dtype]] = {
    np.dtype(array): (np.int16 if bits is torch.int16 else np.uint8, tensor)
    for tensor, (bits, array) in _NARROW.items()
}


def to_array(tensor: torch.Tensor) -> Array:
    """A contiguous copy as a NumPy array, with ml_dtypes for the narrow formats."""
    plain = tensor.detach().cpu()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg()
    # NumPy copies on this thread; PyTorch would wake its pool for it.
    if plain.dtype in _NARROW:
        bits, dtype = _NARROW[plain.dtype]
        return np.array(plain.view(bits).numpy(), order="C").view(dtype)
    return np.array(plain.numpy(), order="C")


def to_tensor(array: Array) -> torch.Tensor:
    """A tensor with its own copy of the array's bytes."""
    own = np.array(array, order="C", copy=True)
    if own.dtype in _NARROW_BACK:
        bits, dtype = _NARROW_BACK[own.dtype]
        return torch.from_numpy(own.view(bits)).view(dtype)
    return torch.from_numpy(own)


def to_wide(array: Array, dtype: type[np.float32 | np.float64]) -> torch.Tensor:
    """A float32 or float64 tensor of an array of reals, with one copy."""
    return torch.from_numpy((to_single(array) if array.dtype == BFLOAT16 else array).astype(dtype))


def dtype_name(dtype: torch.dtype) -> str:
    """The name without `torch.`, as in "bfloat16" and "bool"."""
    return str(dtype).removeprefix("torch.")


def find_torch_dtype(name: str) -> torch.dtype | None:
    """The torch dtype of that name, if there is one."""
    found = getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else None
