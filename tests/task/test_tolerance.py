import pytest

from nki_agent.isa.dtype import DType
from nki_agent.task.tolerance import Gate, ToleranceClass, find_wider, tolerance_for


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


def test_wider_classes_end_and_never_narrow() -> None:
    for name in ToleranceClass:
        wider = find_wider(name)
        if wider is not None:
            before = tolerance_for(name, DType.BFLOAT16)
            assert tolerance_for(wider, DType.BFLOAT16).rel_l2 > before.rel_l2
    assert find_wider(ToleranceClass.Q2) is None


def test_loosened_exact_stays_exact() -> None:
    exact = tolerance_for(ToleranceClass.EX, DType.FLOAT32)
    assert exact.loosened(2) == exact
