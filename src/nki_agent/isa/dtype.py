"""The number formats of NKI.

Source: nki.language data types (NKI 0.6.0). float8_e4m3 is the IEEE-like form with a largest value
of 240; float8_e4m3fn is the OCP form with 448. tfloat32 is stored in four bytes. Packed fp8 takes
32 bits, packed fp4 16 bits (MX deep dive, "Data Tensor").
"""

from __future__ import annotations

from enum import StrEnum

import ml_dtypes
import numpy as np


class DType(StrEnum):
    """A number format by the name that NKI gives it."""

    FLOAT32 = "float32"
    TFLOAT32 = "tfloat32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT8_E4M3 = "float8_e4m3"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT8_E8M0FNU = "float8_e8m0fnu"
    FLOAT8_E5M2_X4 = "float8_e5m2_x4"
    FLOAT8_E4M3FN_X4 = "float8_e4m3fn_x4"
    FLOAT4_E2M1FN_X4 = "float4_e2m1fn_x4"
    INT32 = "int32"
    UINT32 = "uint32"
    INT16 = "int16"
    UINT16 = "uint16"
    INT8 = "int8"
    UINT8 = "uint8"
    BOOL = "bool_"

    # Plain attributes, set below: every pass over a Program asks for them thousands of times.
    itemsize: int
    """Bytes of one element in memory."""
    is_float: bool
    """Whether it is a floating-point format; a packed one counts as neither kind."""
    is_packed: bool
    """Whether one element packs four 8-bit or 4-bit floats (the MX formats)."""
    is_integer: bool
    """Whether it is an integer format; bool_ counts as one."""
    numpy_dtype: np.dtype
    """The NumPy (or ml_dtypes) format with the same bytes; tfloat32 is held as float32."""


_NUMPY: dict[DType, np.dtype] = {
    DType.FLOAT32: np.dtype(np.float32),
    DType.TFLOAT32: np.dtype(np.float32),
    DType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    DType.FLOAT16: np.dtype(np.float16),
    DType.FLOAT8_E4M3: np.dtype(ml_dtypes.float8_e4m3),
    DType.FLOAT8_E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.FLOAT8_E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.FLOAT8_E8M0FNU: np.dtype(ml_dtypes.float8_e8m0fnu),
    DType.FLOAT8_E5M2_X4: np.dtype(np.uint32),
    DType.FLOAT8_E4M3FN_X4: np.dtype(np.uint32),
    DType.FLOAT4_E2M1FN_X4: np.dtype(np.uint16),
    DType.INT32: np.dtype(np.int32),
    DType.UINT32: np.dtype(np.uint32),
    DType.INT16: np.dtype(np.int16),
    DType.UINT16: np.dtype(np.uint16),
    DType.INT8: np.dtype(np.int8),
    DType.UINT8: np.dtype(np.uint8),
    DType.BOOL: np.dtype(np.uint8),
}
for _dtype, _numpy in _NUMPY.items():
    _dtype.itemsize, _dtype.numpy_dtype = _numpy.itemsize, _numpy
    _dtype.is_packed = _dtype.value.endswith("_x4")
    _is_real = _dtype.value.startswith(("float", "bfloat", "tfloat"))
    _dtype.is_float = _is_real and not _dtype.is_packed
    _dtype.is_integer = not _is_real
_NO_NUMPY = {d for d in DType if d in (DType.TFLOAT32, DType.BOOL) or d.is_packed}
_BY_NUMPY: dict[np.dtype, DType] = {
    numpy: dtype for dtype, numpy in _NUMPY.items() if dtype not in _NO_NUMPY
} | {np.dtype(np.bool_): DType.BOOL}


def find_dtype(value: object) -> DType | None:
    """The format that a name, a NumPy dtype or scalar type stands for, or None."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        name = {"bool": "bool_"}.get(value, value)
        return DType(name) if name in DType._value2member_map_ else None
    try:
        return _BY_NUMPY.get(np.dtype(value))  # type: ignore[call-overload]
    except (TypeError, ValueError):  # a ValueError for what has a `dtype` that is none
        return None
