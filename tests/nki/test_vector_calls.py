"""Instructions of Vector and GpSimd as kernels call them, against what NumPy says."""

from __future__ import annotations

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target
from tests.kernels import body
from tests.running import Array, run_kernel

N = 16
STORE = """
out = nl.ndarray(dst.shape, dtype=dst.dtype, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=dst)
return out
"""


@pytest.fixture
def x() -> Array:
    return rng_for(5, "x").standard_normal((4, N)).astype(np.float32)


def run_call(
    call: str, x: Array, *, width: int, dtype: str = "nl.float32", target: Target = Target.TRN2
) -> Array:
    """`dst` after a call that reads the tile `t`, which holds `x`, and may use the column `c`."""
    lines = (
        f"t = nl.load(x)\nc = t[:, 0:1]\ndst = nl.zeros((4, {width}), {dtype}, buffer=nl.sbuf)\n"
        f"{call}{STORE}"
    )
    return run_kernel(body(lines), target=target, x=x)


def test_affine_select_keeps_a_triangle(x: Array) -> None:
    call = f"nisa.affine_select(dst, [[-1, {N}]], 1, t, -5.0, cmp_op=nl.greater_equal)"
    expected = np.where(np.tri(4, N, dtype=bool), x, np.float32(-5.0))
    np.testing.assert_array_equal(run_call(call, x, width=N), expected)


def test_affine_select_counts_from_its_offset(x: Array) -> None:
    call = f"nisa.affine_select(dst, [[1, {N}]], 0, t, 0.0, cmp_op=nl.less, offset=-3)"
    expected = np.where(np.arange(N) < 3, x, np.float32(0.0))
    np.testing.assert_array_equal(run_call(call, x, width=N), expected)


def test_bn_stats_and_bn_aggr_give_mean_and_variance(x: Array) -> None:
    call = (
        "stats = nl.ndarray((4, 6), nl.float32, buffer=nl.sbuf)\n"
        "nisa.bn_stats(dst=stats, data=t)\n"
        "nisa.bn_aggr(dst=dst, data=stats)"
    )
    expected = np.stack([x.mean(axis=1), x.var(axis=1)], axis=1)
    np.testing.assert_allclose(run_call(call, x, width=2), expected, rtol=1e-5, atol=1e-6)


def test_tensor_tensor_scan_carries_its_result(x: Array) -> None:
    call = "nisa.tensor_tensor_scan(dst, t, t, 0.5, nl.multiply, nl.add)"
    expected, carried = np.empty_like(x), np.full(4, 0.5, np.float32)
    for column in range(N):
        carried = x[:, column] * carried + x[:, column]
        expected[:, column] = carried
    np.testing.assert_allclose(run_call(call, x, width=N), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("reversal", "expected"),
    [
        ("", lambda x, c: (x - c) * x),
        (", reverse0=True", lambda x, c: (c - x) * x),
    ],
)
def test_scalar_tensor_tensor_is_two_operations(x: Array, reversal: str, expected) -> None:  # type: ignore[no-untyped-def]
    call = f"nisa.scalar_tensor_tensor(dst, t, nl.subtract, c, nl.multiply, t{reversal})"
    np.testing.assert_array_equal(run_call(call, x, width=N), expected(x, x[:, :1]))


def test_max8_and_nc_find_index8_find_the_largest(x: Array) -> None:
    call = "nisa.max8(dst, t)"
    largest = -np.sort(-x, axis=1)[:, :8]
    np.testing.assert_array_equal(run_call(call, x, width=8), largest)
    call = (
        "found = nl.ndarray((4, 8), nl.float32, buffer=nl.sbuf)\n"
        "nisa.max8(found, t)\n"
        "nisa.nc_find_index8(dst, t, found)"
    )
    places = np.argsort(-x, axis=1)[:, :8]
    np.testing.assert_array_equal(run_call(call, x, width=8, dtype="nl.uint32"), places)


def test_tensor_scalar_reduce_sums_what_it_writes(x: Array) -> None:
    call = (
        "done = nl.ndarray((4, 16), nl.float32, buffer=nl.sbuf)\n"
        "nisa.tensor_scalar_reduce(done, t, nl.multiply, 2.0, nl.add, reduce_res=dst)"
    )
    expected = (2.0 * x).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(run_call(call, x, width=1), expected, rtol=1e-5, atol=1e-6)


def test_select_reduce_takes_where_the_predicate_is_set(x: Array) -> None:
    call = (
        "chosen = nl.ndarray((4, 16), nl.uint8, buffer=nl.sbuf)\n"
        "nisa.tensor_scalar(chosen, t, nl.greater, 0.0)\n"
        "nisa.select_reduce(dst, chosen, t, -1.0)"
    )
    expected = np.where(x > 0, x, np.float32(-1.0))
    np.testing.assert_array_equal(run_call(call, x, width=N), expected)


@pytest.mark.parametrize(("target", "generation"), [(Target.TRN1, 2), (Target.TRN3, 4)])
def test_versions_of_the_core_are_known_while_tracing(
    x: Array, target: Target, generation: int
) -> None:
    call = (
        "version = nisa.get_nc_version().value\n"
        "nisa.memset(dst, version * 10.0 + nisa.get_nc_sub_version())"
    )
    result = run_call(call, x, width=1, target=target)
    assert (result // 10 == generation).all()
