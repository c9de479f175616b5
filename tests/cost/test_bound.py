"""The bound is the slowest resource, each at full use."""

import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.bound import Roof, Work, bound_ns
from nki_agent.isa.dtype import DType

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
