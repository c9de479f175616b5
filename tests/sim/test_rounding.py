"""Rounding against ml_dtypes and NumPy, over every pattern of the narrow formats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.sim.rounding import decode, encode, round_values
from tests.sim.build import Array

NARROW = (
    DType.BFLOAT16,
    DType.FLOAT16,
    DType.FLOAT8_E4M3,
    DType.FLOAT8_E4M3FN,
    DType.FLOAT8_E5M2,
)
INTEGERS = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32)
ODD_NANS = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF, 0x7F807FFF], np.uint32)


def from_bits(bits: Array) -> Array:
    return bits.astype(np.uint32).view(np.float32)


def every_pattern(dtype: DType) -> Array:
    unsigned = np.dtype(f"u{dtype.itemsize}")
    codes = np.arange(1 << (8 * dtype.itemsize), dtype=np.uint32).astype(unsigned)
    return codes.view(dtype.numpy_dtype)


def reference(values: Array, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy_dtype).astype(np.float32)


def assert_same(got: Array, wanted: Array) -> None:
    """Equal bits, but for NaN, of which there is one kind."""
    same = got.view(np.uint32) == wanted.view(np.uint32)
    assert bool((same | (np.isnan(got) & np.isnan(wanted))).all())


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("dtype", NARROW)
def test_values_of_the_format_stay(dtype: DType) -> None:
    values = every_pattern(dtype).astype(np.float32)
    assert_same(round_values(values, dtype), values)


@pytest.mark.parametrize("dtype", NARROW)
def test_ties_and_their_neighbours_round_to_even(dtype: DType) -> None:
    values = np.sort(every_pattern(dtype).astype(np.float32))
    finite = values[np.isfinite(values)].astype(np.float64)
    ties = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    near = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)])
    near = near.astype(np.float32)
    assert_same(round_values(near, dtype), reference(near, dtype))


@pytest.mark.parametrize("dtype", NARROW)
def test_random_float32_bits_round_as_ml_dtypes_does(dtype: DType) -> None:
    bits = rng_for(0, dtype).integers(0, 1 << 32, 300_000, dtype=np.uint64)
    values = from_bits(bits)
    assert_same(round_values(values, dtype), reference(values, dtype))


@given(st.lists(st.floats(width=32), min_size=1, max_size=40), st.sampled_from(NARROW))
def test_any_float32_rounds_as_ml_dtypes_does(numbers: list[float], dtype: DType) -> None:
    with np.errstate(all="ignore"):
        values = np.array(numbers, np.float32)
        assert_same(round_values(values, dtype), reference(values, dtype))


@pytest.mark.parametrize("dtype", [*NARROW, DType.TFLOAT32])
def test_nan_of_any_payload_stays_nan(dtype: DType) -> None:
    assert bool(np.isnan(round_values(from_bits(ODD_NANS), dtype)).all())


def test_tfloat32_keeps_ten_bits_of_the_fraction() -> None:
    values = np.array([1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-12], np.float32)
    wanted = np.array([1 + 2**-10, 1, 1 + 2**-9, 1], np.float32)
    assert_same(round_values(values, DType.TFLOAT32), wanted)


def test_overflow_is_what_each_format_has() -> None:
    values = np.array([250.0, 500.0, 1e6, 1e39, -1e6], np.float32)
    inf, nan = np.float32(np.inf), np.float32(np.nan)
    wanted = {
        DType.FLOAT8_E4M3: [inf, inf, inf, inf, -inf],
        DType.FLOAT8_E4M3FN: [256.0, nan, nan, nan, nan],
        DType.FLOAT8_E5M2: [256.0, 512.0, inf, inf, -inf],
        DType.FLOAT16: [250.0, 500.0, inf, inf, -inf],
    }
    for dtype, numbers in wanted.items():
        assert_same(round_values(values, dtype), np.array(numbers, np.float32))


@pytest.mark.parametrize("dtype", NARROW)
def test_stored_bytes_come_back(dtype: DType) -> None:
    stored = every_pattern(dtype)
    values = np.empty(stored.shape, np.float32)
    decode(stored, dtype, values)
    assert_same(values, stored.astype(np.float32))
    back = np.empty_like(stored)
    encode(values, dtype, back)
    assert_same(back.astype(np.float32), values)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_float_to_integer_rounds_to_even_and_saturates(dtype: DType) -> None:
    limits = np.iinfo(dtype.numpy_dtype)
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e10, -1e10, np.inf, -np.inf, np.nan], np.float32)
    exact = [0, 2, 2, 0, -2, limits.max, limits.min, limits.max, limits.min, 0]
    wanted = [min(max(number, limits.min), limits.max) for number in exact]
    assert round_values(values, dtype).tolist() == wanted


@given(st.lists(st.floats(width=32), min_size=1, max_size=40), st.sampled_from(INTEGERS))
def test_any_float32_becomes_the_nearest_integer_there_is(
    numbers: list[float], dtype: DType
) -> None:
    limits = np.iinfo(dtype.numpy_dtype)
    wanted = []
    for number in numbers:
        if np.isnan(number):
            wanted.append(0)
        elif np.isinf(number):
            wanted.append(limits.max if number > 0 else limits.min)
        else:
            wanted.append(min(max(round(number), limits.min), limits.max))
    assert round_values(np.array(numbers, np.float32), dtype).tolist() == wanted


@pytest.mark.parametrize("dtype", [*NARROW, DType.TFLOAT32, DType.INT16])
def test_the_input_is_not_changed(dtype: DType) -> None:
    values = from_bits(rng_for(1, dtype).integers(0, 1 << 32, 1000, dtype=np.uint64))
    before = values.copy()
    round_values(values, dtype)
    assert values.tobytes() == before.tobytes()
