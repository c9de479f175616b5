import pytest

from nki_agent.isa.dtype import DType
from nki_agent.task.tolerance import LIMITS, Gate, ToleranceClass, find_wider, tolerance_for


@pytest.mark.parametrize("name", ToleranceClass)
def test_every_class_has_limits_for_every_dtype(name: ToleranceClass) -> None:
    for dtype in DType:
        limits = tolerance_for(name, dtype)
        assert (limits.gate is Gate.EXACT) == (limits.rel_l2 == 0.0)


def test_mixed_class_is_f2_for_float32_and_b1_for_narrower() -> None:
    f2 = tolerance_for(ToleranceClass.F2, DType.FLOAT32)
    b1 = tolerance_for(ToleranceClass.B1, DType.BFLOAT16)
    assert tolerance_for(ToleranceClass.BM, DType.FLOAT32) == f2
    assert tolerance_for(ToleranceClass.BM, DType.BFLOAT16) == b1


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16])
def test_wider_classes_end_and_never_narrow(dtype: DType) -> None:
    for name in ToleranceClass:
        wider = find_wider(name)
        if wider is not None:
            before = tolerance_for(name, dtype)
            assert tolerance_for(wider, dtype).rel_l2 > before.rel_l2
    assert find_wider(ToleranceClass.Q2) is None


@pytest.mark.parametrize("name", [ToleranceClass.B1, ToleranceClass.B2, ToleranceClass.B3])
def test_float16_has_an_eighth_of_the_limits_of_bfloat16(name: ToleranceClass) -> None:
    wide, narrow = (tolerance_for(name, d) for d in (DType.BFLOAT16, DType.FLOAT16))
    assert (wide.rel_l2, wide.max_abs) == LIMITS[name]
    assert (narrow.rel_l2, narrow.max_abs) == (wide.rel_l2 / 8, wide.max_abs / 8)


@pytest.mark.parametrize("mixed", [ToleranceClass.BM, ToleranceClass.B1])
def test_mixed_class_takes_float16_as_b1_does(mixed: ToleranceClass) -> None:
    assert tolerance_for(mixed, DType.FLOAT16).rel_l2 == LIMITS[ToleranceClass.B1][0] / 8


def test_loosened_exact_stays_exact() -> None:
    exact = tolerance_for(ToleranceClass.EX, DType.FLOAT32)
    assert exact.loosened(2) == exact


def test_scales_beside_codes_are_judged_as_what_they_are() -> None:
    for dtype in (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16):
        found = tolerance_for(ToleranceClass.Q1, dtype)
        assert found == tolerance_for(ToleranceClass.BM, dtype)
