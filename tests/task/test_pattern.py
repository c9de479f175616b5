from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.task.cause import Case
from nki_agent.task.pattern import guess_pattern

Reals = NDArray[np.float64]


def normals(*shape: int, name: str = "a") -> Reals:
    return rng_for(0, name).standard_normal(shape)


def guess(expected: Reals, actual: NDArray[Any]) -> str:
    got = actual.astype(np.float64)
    with np.errstate(invalid="ignore"):
        bad = ~(np.abs(got - expected) <= 1e-6)
        return str(guess_pattern(Case(expected=expected, actual=got, bad=bad)))


def test_right_output_has_no_pattern() -> None:
    wanted = normals(20, 30)
    assert guess(wanted, wanted) == ""


def test_unwritten_tail_is_named() -> None:
    wanted = normals(300, 40)
    got = wanted.copy()
    got[256:] = np.nan
    text = guess(wanted, got)
    assert "axis 0 256..299 of 300 (the tail, up to the end)" in text
    assert "never written" in text


def test_one_tile_of_zeros_is_named() -> None:
    wanted = normals(256, 1024)
    got = wanted.copy()
    got[128:, 512:] = 0
    text = guess(wanted, got)
    assert "axis 0 128..255" in text
    assert "axis 1 512..1023" in text
    assert "zeros" in text


def test_every_second_row_is_named() -> None:
    wanted = normals(64, 40)
    got = wanted.copy()
    got[1::4] = 7
    text = guess(wanted, got)
    assert "every 4th index of axis 0 from 1" in text
    assert "constant 7" in text


def test_constant_output_is_named() -> None:
    wanted = normals(20, 30)
    assert "zeros" in guess(wanted, np.zeros((20, 30)))


def test_missing_scale_is_named() -> None:
    wanted = normals(20, 30)
    assert "0.125 times" in guess(wanted, wanted / 8)


def test_missing_offset_is_named() -> None:
    wanted = normals(20, 30)
    assert "plus 0.5" in guess(wanted, wanted + 0.5)


@pytest.mark.parametrize("shape", [(40, 40), (30, 40)])
def test_transposed_output_is_named(shape: tuple[int, int]) -> None:
    wanted = normals(*shape)
    assert "[1, 0]" in guess(wanted, wanted.T.reshape(shape))


def test_permuted_axes_are_named() -> None:
    wanted = normals(4, 6, 8)
    assert "[0, 2, 1]" in guess(wanted, wanted.transpose(0, 2, 1).reshape(wanted.shape))


def test_shift_is_named() -> None:
    wanted = normals(40, 600)
    assert "shifted by 128 along axis 1" in guess(wanted, np.roll(wanted, 128, axis=1))
    assert "shifted by -1 along axis 0" in guess(wanted, np.roll(wanted, -1, axis=0))


def test_tile_with_another_tiles_values_is_named() -> None:
    wanted = normals(384, 40)
    got = wanted.copy()
    got[128:256] = wanted[256:384]
    got[256:384] = wanted[0:128]
    text = guess(wanted, got)
    assert "tile 1 of 128 along axis 0 holds the values of tile 2" in text


def test_missing_accumulation_is_named() -> None:
    left, right = normals(60, 512), normals(512, 50, name="b")
    text = guess(left @ right, left[:, 384:] @ right[384:])
    assert "a sum with about 2" in text
    assert "missing accumulation" in text


def test_stale_accumulator_is_named() -> None:
    wanted = normals(60, 50)
    assert "stale accumulator" in guess(wanted, wanted + normals(60, 50, name="b"))


def test_unrelated_values_are_named() -> None:
    text = guess(normals(60, 50), normals(60, 50, name="b"))
    assert "nothing to do with" in text


def test_lost_precision_is_named() -> None:
    wanted = normals(60, 50)
    assert "bfloat16" in guess(wanted, wanted.astype(ml_dtypes.bfloat16))
    assert "float16" in guess(wanted, wanted.astype(np.float16))
    assert "8-bit" in guess(wanted, wanted.astype(ml_dtypes.float8_e4m3fn))


def test_vector_and_single_element_do_not_fail() -> None:
    assert "of 10" in guess(normals(10), np.where(np.arange(10) > 7, 0.0, normals(10)))
    assert isinstance(guess(np.ones(1), np.full(1, 3.0)), str)


def test_large_output_is_guessed_from_its_first_part() -> None:
    wanted = normals(3000, 1000)
    assert "0.5 times" in guess(wanted, wanted / 2)


def test_missing_clamp_is_no_lost_precision() -> None:
    values = normals(200, 50) * 40
    assert "precision" not in guess(np.clip(values, -100, 100), values.astype(np.float32))


def test_counts_that_are_a_little_wrong_lost_no_precision() -> None:
    wanted = rng_for(0, "counts").integers(100, 200, (130,)).astype(np.float64)
    got = wanted + rng_for(0, "more").integers(1, 20, (130,))
    case = Case(expected=wanted, actual=got, bad=got != wanted, dtype=DType.INT32)
    assert "precision" not in str(guess_pattern(case))


def test_coarse_errors_everywhere_may_be_a_wrong_term() -> None:
    wanted = normals(64, 64)
    text = guess(wanted, wanted + 0.02 * normals(64, 64, name="b"))
    assert "lost precision" in text
    assert "or a term that is a little wrong" in text
