from typing import Any

import ml_dtypes
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.task.comparison import Comparison, compare
from nki_agent.task.tolerance import LIMITS, ToleranceClass, tolerance_for

SHAPE = (64, 48)


def normals(shape: tuple[int, ...] = SHAPE, *, name: str = "a") -> NDArray[np.float64]:
    return rng_for(0, name).standard_normal(shape)


def judge(
    expected: NDArray[Any],
    actual: NDArray[Any],
    *,
    dtype: DType = DType.FLOAT32,
    name: ToleranceClass = ToleranceClass.F2,
) -> Comparison:
    return compare(expected, actual, dtype=dtype, tolerance=tolerance_for(name, dtype))


def test_rounded_reference_is_right() -> None:
    wanted = normals()
    for dtype, name in (
        (DType.FLOAT32, ToleranceClass.F1),
        (DType.BFLOAT16, ToleranceClass.B1),
        (DType.FLOAT16, ToleranceClass.B1),
        (DType.FLOAT8_E4M3, ToleranceClass.Q2),
        (DType.FLOAT8_E5M2, ToleranceClass.Q2),
    ):
        found = judge(wanted, wanted.astype(dtype.numpy_dtype), dtype=dtype, name=name)
        assert found.right
        assert found.ratio < 0.6


def test_bfloat16_rounding_is_wrong_in_float32() -> None:
    wanted = normals()
    found = judge(wanted, wanted.astype(ml_dtypes.bfloat16).astype(np.float32))
    assert not found.right
    assert found.mismatch is not None
    assert "bfloat16" in str(found.mismatch.pattern)


def test_bfloat16_rounding_is_wrong_in_float16() -> None:
    wanted = normals()
    rounded = wanted.astype(ml_dtypes.bfloat16).astype(np.float16)
    assert not judge(wanted, rounded, dtype=DType.FLOAT16, name=ToleranceClass.B1).right


@given(share=st.floats(0.2, 0.9) | st.floats(1.1, 4.0))
@settings(deadline=None, max_examples=25)
def test_relative_l2_error_decides_at_its_limit(share: float) -> None:
    wanted = normals()
    noise = normals(name="noise")
    noise *= share * LIMITS[ToleranceClass.F2][0] * np.linalg.norm(wanted) / np.linalg.norm(noise)
    found = judge(wanted, (wanted + noise).astype(np.float32))
    assert found.right == (share < 1)
    assert found.ratio == pytest.approx(share, rel=0.01)


def test_one_large_error_is_wrong_where_the_whole_is_near() -> None:
    wanted = normals((1000, 1000))
    actual = wanted.astype(np.float32)
    actual[700, 3] += 2e-3
    found = judge(wanted, actual)
    assert found.rel_l2 is not None
    assert found.rel_l2 < LIMITS[ToleranceClass.F2][0]
    assert not found.right
    assert found.mismatch is not None
    assert found.mismatch.first.index == found.mismatch.worst.index == (700, 3)
    assert found.mismatch.num_bad == 1
    assert "largest error" in found.reason


def test_one_bad_row_of_small_values_is_wrong() -> None:
    wanted = normals((1000, 64))
    wanted[5] *= 0.05
    actual = wanted.astype(np.float32)
    actual[5] *= 1.0005
    found = judge(wanted, actual)
    assert not found.right
    assert "row" in found.reason
    assert found.mismatch is not None
    assert found.mismatch.worst_row == (5,)


@pytest.mark.parametrize("name", [ToleranceClass.B2, ToleranceClass.B3])
@pytest.mark.parametrize("size", [5e-3, 1e-2])
def test_small_row_of_zeros_is_wrong_in_a_chain_too(name: ToleranceClass, size: float) -> None:
    wanted = normals()
    wanted[7] *= size
    rounded = wanted.astype(ml_dtypes.bfloat16)
    assert judge(wanted, rounded, dtype=DType.BFLOAT16, name=name).right
    rounded[7] = 0
    assert not judge(wanted, rounded, dtype=DType.BFLOAT16, name=name).right


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_sum_that_cancels_is_right_in_a_chain_of_narrow_steps(width: int) -> None:
    terms = [normals((20_000, width), name=n).astype(ml_dtypes.bfloat16) for n in "abc"]
    first, second, third = (t.astype(np.float64) for t in terms)
    wanted = first * second + third
    kept = (first * second).astype(ml_dtypes.bfloat16).astype(np.float64)
    found = (kept + third).astype(ml_dtypes.bfloat16)
    assert judge(wanted, found, dtype=DType.BFLOAT16, name=ToleranceClass.B2).right


def test_row_of_nearly_zero_values_is_measured_against_a_floor() -> None:
    wanted = normals((1000, 64))
    wanted[5] = 1e-7
    actual = wanted.astype(np.float32)
    actual[5] = 0
    assert judge(wanted, actual).right


def test_vector_has_no_row_gate() -> None:
    wanted = normals((4096,))
    assert judge(wanted, wanted.astype(np.float32)).worst_row_rel is None


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (1,)])
def test_zero_reference_divides_by_nothing(shape: tuple[int, ...]) -> None:
    zeros = np.zeros(shape)
    assert judge(zeros, zeros.astype(np.float32)).right
    assert not judge(zeros, np.full(shape, 1e-3, dtype=np.float32)).right


def test_mostly_zero_rows_are_measured_against_the_average_row() -> None:
    wanted = normals((100, 16))
    wanted[3:] = 0
    actual = wanted.astype(np.float32)
    actual[50, 0] = 1e-9
    assert judge(wanted, actual).right


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf])
def test_value_that_is_not_finite_is_wrong_and_counted(fill: float) -> None:
    wanted = normals()
    actual = wanted.astype(np.float32)
    actual[60:] = fill
    found = judge(wanted, actual)
    assert not found.right
    assert found.num_not_finite == 4 * 48
    assert found.rel_l2 == pytest.approx(0, abs=1e-6)
    assert found.mismatch is not None
    assert found.mismatch.first.index == (60, 0)


def test_infinity_is_right_where_the_output_overflows() -> None:
    wanted = normals() * 1000
    wanted[0, 0] = 1e6
    with np.errstate(over="ignore"):
        actual = wanted.astype(np.float16)
    assert np.isinf(actual[0, 0])
    assert judge(wanted, actual, dtype=DType.FLOAT16, name=ToleranceClass.B1).right
    actual[0, 0] = -np.inf
    assert not judge(wanted, actual, dtype=DType.FLOAT16, name=ToleranceClass.B1).right


def test_expected_infinity_must_be_met() -> None:
    wanted = normals()
    wanted[0, 0] = -np.inf
    actual = wanted.astype(np.float32)
    assert judge(wanted, actual).right
    actual[0, 0] = -1e30
    assert not judge(wanted, actual).right


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_scale_of_the_values_does_not_matter(scale: float) -> None:
    wanted = normals() * scale
    assert judge(wanted, wanted.astype(np.float32)).right
    assert not judge(wanted, (wanted * 1.001).astype(np.float32)).right


def test_exact_output_differs_by_one_bit() -> None:
    wanted = normals().astype(np.float32)
    found = judge(wanted.astype(np.float64), wanted, name=ToleranceClass.EX)
    assert found.right
    actual = wanted.copy()
    actual[2, 3] = np.nextafter(actual[2, 3], np.float32(10))
    found = judge(wanted.astype(np.float64), actual, name=ToleranceClass.EX)
    assert not found.right
    assert found.mismatch is not None
    assert found.mismatch.worst.index == (2, 3)


def test_integers_are_exact_in_every_real_class() -> None:
    wanted = np.arange(60, dtype=np.int32).reshape(6, 10)
    assert judge(wanted, wanted.copy(), dtype=DType.INT32).right
    actual = wanted.copy()
    actual[5, 9] += 1
    assert not judge(wanted, actual, dtype=DType.INT32, name=ToleranceClass.B3).right


def test_unsigned_codes_may_be_one_step_off_on_few_elements() -> None:
    wanted = rng_for(0, "codes").integers(1, 250, (100, 100)).astype(np.uint8)
    few, far, many = wanted.copy(), wanted.copy(), wanted.copy()
    few[0, :40] -= 1
    far[0, 0] ^= 8
    many[:2] -= 1
    for actual, right in ((few, True), (far, False), (many, False)):
        found = judge(wanted, actual, dtype=DType.UINT8, name=ToleranceClass.Q1)
        assert found.right == right


def test_share_of_a_peaked_answer_leaves_its_own_rounding_out() -> None:
    wanted = normals()
    wanted[0, 0] = 100.09
    actual = wanted.astype(ml_dtypes.bfloat16)
    share = float(abs(actual[0, 0] - wanted[0, 0])) / LIMITS[ToleranceClass.B1][1]
    rms = float(np.sqrt(np.mean(np.square(wanted))))
    assert share / rms > 0.5
    found = judge(wanted, actual, dtype=DType.BFLOAT16, name=ToleranceClass.B1)
    assert found.ratio < 0.5


def test_8_bit_floats_may_be_one_step_off_on_few_elements_as_codes() -> None:
    dtype = DType.FLOAT8_E4M3
    wanted = rng_for(0, "codes").uniform(-240, 240, (100, 100))
    right = wanted.astype(dtype.numpy_dtype)
    few, far, many, broken = right.copy(), right.copy(), right.copy(), right.copy()
    few.view(np.uint8)[0, :40] ^= 1
    far.view(np.uint8)[0, 0] ^= 16
    many.view(np.uint8)[:2] ^= 1
    broken[0, 0] = np.nan
    for actual, is_right in (
        (right, True),
        (few, True),
        (far, False),
        (many, False),
        (broken, False),
    ):
        assert judge(wanted, actual, dtype=dtype, name=ToleranceClass.Q1).right == is_right


def test_one_step_off_leaves_room_by_its_share() -> None:
    wanted = rng_for(0, "codes").integers(-120, 120, (100, 100)).astype(np.int8)
    actual = wanted.copy()
    actual[0, 0] += 1
    assert judge(wanted, actual, dtype=DType.INT8, name=ToleranceClass.Q1).ratio < 0.1


def test_largest_8_bit_float_and_infinity_are_no_neighbours() -> None:
    dtype = DType.FLOAT8_E4M3
    wanted = np.full((100, 100), 240.0)
    actual = wanted.astype(dtype.numpy_dtype)
    actual[0, 0] = np.inf
    assert not judge(wanted, actual, dtype=dtype, name=ToleranceClass.Q1).right


def test_shape_and_dtype_are_named_before_any_value() -> None:
    wanted = normals()
    flat = judge(wanted, wanted.astype(np.float32).ravel())
    assert (flat.right, flat.rel_l2) == (False, None)
    assert "shape is [3072] instead of [64, 48]" in str(flat)
    assert "dtype is float64 instead of float32" in str(judge(wanted, wanted))


def test_comparison_survives_json() -> None:
    wanted = normals()
    actual = wanted.astype(np.float32)
    actual[3, 4] = np.nan
    found = judge(wanted, actual)
    assert found.mismatch is not None
    assert found.mismatch.first.got == "nan"
    data = msgspec.json.encode(found)
    assert msgspec.json.decode(data, type=Comparison) == found


def test_text_names_reason_places_and_pattern() -> None:
    wanted = normals()
    actual = wanted.astype(np.float32)
    actual[48:] = 0
    text = str(judge(wanted, actual))
    assert "768 of 3072 elements are wrong; first [48, 0] is 0 instead of" in text
    assert "axis 0 48..63 of 64 (the tail, up to the end)" in text
    assert len(text) < 500


def test_unexplained_comparison_has_the_same_error() -> None:
    wanted = normals()
    actual = (wanted * 1.1).astype(np.float32)
    tolerance = tolerance_for(ToleranceClass.F2, DType.FLOAT32)
    short = compare(wanted, actual, dtype=DType.FLOAT32, tolerance=tolerance, context=None)
    full = judge(wanted, actual)
    assert (short.ratio, short.mismatch) == (full.ratio, None)


def test_peaked_bfloat16_softmax_rounded_once_is_right() -> None:
    scores = 6 * normals((64, 4096))
    wanted = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted /= wanted.sum(axis=1, keepdims=True)
    actual = wanted.astype(DType.BFLOAT16.numpy_dtype)
    found = judge(wanted, actual, dtype=DType.BFLOAT16, name=ToleranceClass.B1)
    assert found.right
    assert found.max_abs is not None
    assert found.rms is not None
    assert found.max_abs > LIMITS[ToleranceClass.B1][1] * found.rms
    worst = np.unravel_index(wanted.argmax(), wanted.shape)
    actual[worst] = actual[worst] * 1.2
    assert not judge(wanted, actual, dtype=DType.BFLOAT16, name=ToleranceClass.B1).right


def test_row_that_cancels_to_nothing_keeps_a_rounding_of_its_terms() -> None:
    wanted = rng_for(3, "rows").standard_normal((12, 40))
    wanted[0] = 0.0
    tolerance = tolerance_for(ToleranceClass.F3, DType.FLOAT32)
    for share, is_right in ((2.0, True), (2000.0, False)):
        actual = wanted.astype(np.float32)
        actual[0] = share * np.finfo(np.float32).eps * 12
        found = compare(wanted, actual, dtype=DType.FLOAT32, tolerance=tolerance)
        assert found.right == is_right
