from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from nki_agent.base.errors import TaskError
from nki_agent.isa.dtype import DType
from nki_agent.task.values import find_format, is_static, is_tensor, to_stored


def format_of(value: Any, *, is_torch: bool = False, wanted: DType | None = None) -> DType:
    return find_format(np.asarray(value), what="it", is_torch=is_torch, wanted=wanted).dtype


HELD = [d for d in DType if d is not DType.TFLOAT32 and not d.is_packed]
"""Formats that an array of the user can have; packed ones and tfloat32 look like others."""


@pytest.mark.parametrize("dtype", HELD)
def test_dtype_of_the_chip_is_kept(dtype: DType) -> None:
    held = np.bool_ if dtype is DType.BOOL else dtype.numpy_dtype
    assert format_of(np.ones(3, dtype=held)) is dtype


def test_wide_formats_are_narrowed_or_refused() -> None:
    assert format_of(np.ones(3, dtype=np.int64)) is DType.INT32
    assert format_of(np.ones(3, dtype=np.uint64)) is DType.UINT32
    assert format_of(np.ones(3)) is DType.FLOAT32
    with pytest.raises(TaskError, match="float64"):
        format_of(np.ones(3), is_torch=True)
    with pytest.raises(TaskError, match="64-bit integers"):
        format_of(np.array([-(2**40)]))
    for dtype in (np.complex128, np.longdouble, object):
        with pytest.raises(TaskError, match="the chip lacks"):
            format_of(np.ones(3, dtype=dtype))


def test_wanted_dtype_takes_reals_only() -> None:
    wanted = DType.BFLOAT16
    assert format_of(np.ones(3), is_torch=True, wanted=wanted) is wanted
    assert format_of(np.ones(3, dtype=np.float16), wanted=wanted) is wanted
    assert format_of(np.ones(3, dtype=np.int32), wanted=wanted) is DType.INT32
    codes = np.ones(3, dtype=ml_dtypes.float8_e4m3fn)
    assert format_of(codes, wanted=wanted) is DType.FLOAT8_E4M3FN


def test_booleans_are_stored_as_bytes_and_rank_0_as_rank_1() -> None:
    stored = to_stored(np.array(True), DType.BOOL)
    assert stored.dtype == np.uint8
    assert stored.tolist() == [1]


def test_tensors_and_statics_are_told_apart() -> None:
    for value in (np.ones(2), np.float32(1), torch.ones(2), torch.tensor(1.0)):
        assert is_tensor(value)
        assert not is_static(value)
    for static in (None, True, 3, 0.5):
        assert is_static(static)
        assert not is_tensor(static)
    assert not is_static("text")
