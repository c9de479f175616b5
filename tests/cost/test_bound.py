"""The bound is the slowest resource, each at full use."""

import ml_dtypes
import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.bound import SPLIT_PASSES, Roof, Work, bound_ns
from nki_agent.isa.dtype import DType
from nki_agent.task.tolerance import LIMITS, ToleranceClass

TRN2 = load_chip(Target.TRN2)


def test_bytes_are_moved_at_the_effective_rate() -> None:
    bound = bound_ns(Work(hbm_bytes=368_000), TRN2)
    assert bound.resource is Roof.BYTES
    assert bound.ns == pytest.approx(1000)


def test_matmul_bound_is_the_published_peak() -> None:
    flops = 10**12
    short = bound_ns(Work(hbm_bytes=1, matmul_flops={DType.BFLOAT16: flops}), TRN2)
    full = bound_ns(Work(hbm_bytes=1, matmul_flops={DType.FLOAT32: flops}), TRN2)
    assert short.resource is Roof.MATMUL
    assert flops / short.ns / 1000 == pytest.approx(79, rel=0.01)
    assert full.ns == pytest.approx(3 * short.ns)


def test_matmuls_of_several_formats_add_up() -> None:
    parts = {DType.BFLOAT16: 10**9, DType.FLOAT32: 10**9}
    both = bound_ns(Work(hbm_bytes=1, matmul_flops=parts), TRN2)
    alone = [
        bound_ns(Work(hbm_bytes=1, matmul_flops={dtype: flops}), TRN2).ns
        for dtype, flops in parts.items()
    ]
    assert both.ns == pytest.approx(sum(alone))


def test_passes_use_every_elementwise_engine_in_its_fastest_mode() -> None:
    elems = 10**9
    full = bound_ns(Work(hbm_bytes=1, elementwise_elems=elems), TRN2)
    assert full.resource is Roof.PASSES
    assert elems / full.ns == pytest.approx(128 * (0.96 + 1.2 + 1.2))
    short = bound_ns(
        Work(hbm_bytes=1, elementwise_elems=elems, elementwise_dtype=DType.BFLOAT16), TRN2
    )
    assert elems / short.ns == pytest.approx(128 * (4 * 0.96 + 1.2 + 1.2))


def test_percent_is_of_the_latency() -> None:
    bound = bound_ns(Work(hbm_bytes=368_000), TRN2)
    assert bound.percent(2000) == pytest.approx(50)
    assert bound.percent(0) == 0


def test_float32_product_is_right_from_three_of_16_bits_and_not_from_fewer() -> None:
    rng = rng_for(1, "split")
    left, right = (rng.standard_normal((128, 128)).astype(np.float32) for _ in range(2))

    def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        high = x.astype(ml_dtypes.bfloat16).astype(np.float32)
        return high, (x - high).astype(ml_dtypes.bfloat16).astype(np.float32)

    (high, low), (other_high, other_low) = halves(left), halves(right)
    products = [high @ other_high, high @ other_low, low @ other_high]
    wanted = left.astype(np.float64) @ right
    errors = [
        np.linalg.norm(sum(products[:n]) - wanted) / np.linalg.norm(wanted)
        for n in range(1, SPLIT_PASSES + 1)
    ]
    limit, _ = LIMITS[ToleranceClass.F2]
    assert [error <= limit for error in errors] == [False, False, True]


def test_fp8_products_use_the_rows_that_a_partition_holds() -> None:
    work = Work(hbm_bytes=1, matmul_flops={DType.FLOAT8_E4M3: 10**12})
    short = Work(hbm_bytes=1, matmul_flops={DType.BFLOAT16: 10**12})
    for target, rows in ((Target.TRN1, 1), (Target.TRN2, 2), (Target.TRN3, 4)):
        chip = load_chip(target)
        assert bound_ns(short, chip).ns == pytest.approx(rows * bound_ns(work, chip).ns)
