"""Registers and run-time loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_agent.base.errors import KernelError
from nki_agent.base.seeds import rng_for
from tests.sim.build import Array
from tests.sim.traced import compiled, failed, line_of, run_kernel


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(np.float32)


# Registers.

REGISTERS = """
out = nl.ndarray((1, 4), dtype=nl.{dtype}, buffer=nl.shared_hbm)
tile = nl.ndarray((1, 4), dtype=nl.{dtype})
nisa.dma_copy(dst=tile, src=x)
r = nisa.register_alloc(7)
q = nisa.register_alloc()
nisa.register_move(q, r)
nisa.register_store(tile[:, 0:1], q)
nisa.register_load(r, tile[:, 2:3])
nisa.register_store(tile[:, 1:2], r)
nisa.register_store(out[:, 0:1], q)
nisa.dma_copy(dst=out, src=tile)
return out
"""


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int16", "uint16", "int8", "uint8"])
def test_registers_move_load_and_store_integers(dtype: str) -> None:
    low = np.iinfo(dtype).min
    x = np.array([[1, 2, low, 9]], dtype)
    got = run_kernel(REGISTERS.format(dtype=dtype), {"x": x}).outputs[0]
    assert got.tolist() == [[7, low, low, 9]]


def test_register_holds_32_bits_and_a_store_keeps_the_low_ones() -> None:
    text = """
out = nl.ndarray((1, 1), dtype=nl.uint8, buffer=nl.shared_hbm)
wide = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
r = nisa.register_alloc(2**32 + 300)
nisa.register_store(out, r)
nisa.register_store(wide, r)
return out, wide
"""
    narrow, wide = run_kernel(text, {"x": normal(1, 1)}).outputs
    assert (narrow.item(), wide.item()) == (300 % 256, 300)


def test_register_that_was_not_written_is_not_read() -> None:
    text = """
out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
r = nisa.register_alloc()
nisa.register_store(out, r)
return out
"""
    finding = failed(text, {"x": normal(1, 1)})
    assert finding.code == "NK207"
    assert finding.where[-1].line == line_of(text, "nisa.register_store")


def test_register_of_a_float_is_refused() -> None:
    text = """
out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
nisa.register_store(out, nisa.register_alloc(3))
return out
"""
    with pytest.raises(KernelError, match="float32"):
        compiled(text, {"x": normal(1, 1)})


# Counted loops.

SUM = """
out = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.shared_hbm)
total = nl.zeros((1, 8), dtype=nl.float32)
counts = nl.ndarray((1, 2), dtype=nl.int32)
nisa.dma_copy(dst=counts, src=bounds)
lower, upper = nisa.register_alloc(), nisa.register_alloc()
nisa.register_load(lower, counts[:, 0:1])
nisa.register_load(upper, counts[:, 1:2])
def step(i):
    row = nl.ndarray((1, 8), dtype=nl.float32)
    nisa.dma_copy(dst=row, src=x.select(0, i).expand_dim(0))
    nisa.tensor_tensor(dst=total, data1=total, data2=row, op=nl.add)
nl.fori_loop(lower, upper, step, step={step})
nisa.dma_copy(dst=out, src=total)
return out
"""


@pytest.mark.parametrize(("lower", "upper", "step"), [(0, 16, 1), (3, 14, 4), (5, 5, 1), (9, 2, 1)])
def test_fori_loop_counts_as_python_does(lower: int, upper: int, step: int) -> None:
    x = normal(16, 8)
    bounds = np.array([[lower, upper]], np.int32)
    result = run_kernel(SUM.format(step=step), {"x": x, "bounds": bounds})
    rows = range(lower, upper, step)
    want = np.zeros(8, np.float32)
    for row in rows:
        want = want + x[row]
    assert result.outputs[0].tolist() == [want.tolist()]
    assert result.trips.loops == (len(rows),)


def test_one_executable_runs_with_other_bounds() -> None:
    x = normal(16, 8)
    executable = compiled(SUM.format(step=1), {"x": x, "bounds": np.zeros((1, 2), np.int32)})
    for upper in (16, 1, 7):
        result = executable.run({"x": x, "bounds": np.array([[0, upper]], np.int32)})
        assert result.trips.loops == (upper,)
        np.testing.assert_allclose(result.outputs[0][0], x[:upper].sum(0), rtol=1e-5)


def test_loops_nest_and_inner_bounds_follow_the_outer_register() -> None:
    text = """
out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
total = nl.zeros((1, 1), dtype=nl.float32)
cell = nl.ndarray((1, 1), dtype=nl.float32)
def outer(i):
    def inner(j):
        nisa.dma_copy(dst=cell, src=x.ap([[1, 1], [1, 1]], scalar_offset=j, indirect_dim=1))
        nisa.tensor_tensor(dst=total, data1=total, data2=cell, op=nl.add)
    nl.fori_loop(i, 5, inner)
nl.fori_loop(0, 5, outer)
nisa.dma_copy(dst=out, src=total)
return out
"""
    x = np.array([[1, 10, 100, 1000, 10000]], np.float32)
    result = run_kernel(text, {"x": x})
    assert result.outputs[0].item() == 54321
    # The outer loop is number 0, the inner one 1; a count is over all times that it ran.
    assert result.trips.loops == (5, 15)


TILES = {
    "sum": "nisa.tensor_tensor(dst=acc, data1=acc, data2=t, op=nl.add)",
    "chain": "nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=0.5)\n"
    "    nisa.tensor_tensor(dst=acc, data1=t, data2=acc, op=nl.subtract)",
    "part": "nisa.memset(dst=acc[:, 0:2], value=1.0)\n"
    "    nisa.tensor_tensor(dst=acc, data1=acc, data2=t, op=nl.multiply)",
}
LOOP = """
out = nl.ndarray((64, 4), dtype=nl.bfloat16, buffer=nl.shared_hbm)
acc = nl.zeros((4, 4), dtype=nl.bfloat16)
def step(i):
    t = nl.ndarray((4, 4), dtype=nl.float32)
    nisa.dma_copy(dst=t, src=x.ap([[4, 4], [1, 4]], scalar_offset=i))
    {work}
    nisa.dma_copy(dst=out.ap([[4, 4], [1, 4]], scalar_offset=i), src=acc)
"""


@settings(max_examples=25, deadline=None)
@given(
    work=st.sampled_from(sorted(TILES)),
    lower=st.integers(0, 30),
    count=st.integers(0, 12),
    step=st.integers(1, 3),
)
def test_fori_loop_gives_what_the_unrolled_loop_gives(
    work: str, lower: int, count: int, step: int
) -> None:
    x = normal(64, 4)
    upper = min(lower + count * step, 61)
    head = LOOP.format(work=TILES[work])
    looped = head + f"nl.fori_loop({lower}, {upper}, step, step={step})\nreturn out\n"
    unrolled = (
        head.replace("scalar_offset=i", "offset=i * 4")
        + f"for i in range({lower}, {upper}, {step}):\n    step(i)\nreturn out\n"
    )
    first, second = (run_kernel(text, {"x": x}).outputs[0] for text in (looped, unrolled))
    assert first.tobytes() == second.tobytes()


def test_dynamic_range_runs_as_fori_loop_does() -> None:
    text = """
out = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)
t = nl.ndarray((1, 4), dtype=nl.float32)
for i in nl.dynamic_range(8):
    nisa.dma_copy(dst=t, src=x.ap([[4, 1], [1, 4]], scalar_offset=i))
    nisa.dma_copy(dst=out.ap([[4, 1], [1, 4]], scalar_offset=i), src=t)
return out
"""
    assert run_kernel(text, {"x": normal(8, 4)}).outputs[0].tolist() == normal(8, 4).tolist()


# Loops on a condition.

COUNTDOWN = """
out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
total = nl.zeros((1, 1), dtype=nl.float32)
left = nl.ndarray((1, 1), dtype=nl.int32)
nisa.dma_copy(dst=left, src=x)
one = nl.ndarray((1, 1), dtype=nl.int32)
nisa.memset(dst=one, value=1)
flag = nisa.register_alloc()
nisa.register_load(flag, left)
def step(r):
    nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=2.0)
    nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)
    nisa.register_load(r, left)
    return r
nl.while_loop(flag, step)
nisa.dma_copy(dst=out, src=total)
return out
"""


@pytest.mark.parametrize("count", [0, 1, 9])
def test_while_loop_runs_while_its_register_is_not_zero(count: int) -> None:
    result = run_kernel(COUNTDOWN, {"x": np.array([[count]], np.int32)})
    assert result.outputs[0].item() == 2 * count
    assert result.trips.loops == (count,)


def test_loop_without_an_end_stops_at_its_line() -> None:
    finding = failed(COUNTDOWN, {"x": np.array([[-1]], np.int32)}, steps_max=1000)
    assert finding.code == "NK111"
    assert finding.limit == "1000"
    assert finding.where[-1].line == line_of(COUNTDOWN, "nl.while_loop")


def test_empty_loop_without_an_end_stops() -> None:
    text = """
out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
nl.while_loop(nisa.register_alloc(1), lambda r: r)
return out
"""
    assert failed(text, {"x": normal(1, 1)}, steps_max=1000).code == "NK111"


# Memory in loops.


def test_tile_of_a_loop_body_is_poison_in_each_iteration() -> None:
    text = """
out = nl.ndarray((4, 2), dtype=nl.float32, buffer=nl.shared_hbm)
def step(i):
    t = nl.ndarray((1, 2), dtype=nl.float32)
    nisa.tensor_copy(dst=t[:, 0:1], src=t[:, 1:2])
    nisa.dma_copy(dst=out.ap([[2, 1], [1, 2]], scalar_offset=i), src=t)
    nisa.memset(dst=t, value=1.0)
nl.fori_loop(0, 4, step)
return out
"""
    assert bool(np.isnan(run_kernel(text, {"x": normal(1, 1)}).outputs[0]).all())


def test_tile_from_before_a_loop_keeps_its_contents_over_iterations() -> None:
    text = """
out = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.shared_hbm)
kept = nl.ndarray((1, 4), dtype=nl.float32)
def step(i):
    t = nl.ndarray((1, 1), dtype=nl.float32)
    nisa.dma_copy(dst=t, src=x.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1))
    nisa.tensor_copy(dst=kept.ap([[4, 1], [1, 1]], scalar_offset=i, indirect_dim=1), src=t)
nl.fori_loop(1, 4, step)
nisa.dma_copy(dst=out, src=kept)
return out
"""
    x = normal(1, 4)
    got = run_kernel(text, {"x": x}).outputs[0]
    assert np.isnan(got[0, 0])
    assert got[0, 1:].tolist() == x[0, 1:].tolist()


def test_rows_of_an_output_that_a_run_does_not_write_are_poison_again() -> None:
    x = normal(16, 8)
    text = """
out = nl.ndarray((16, 8), dtype=nl.float32, buffer=nl.shared_hbm)
upper = nisa.register_alloc()
nisa.register_load(upper, n)
t = nl.ndarray((1, 8), dtype=nl.float32)
def step(i):
    nisa.dma_copy(dst=t, src=x.ap([[8, 1], [1, 8]], scalar_offset=i))
    nisa.dma_copy(dst=out.ap([[8, 1], [1, 8]], scalar_offset=i), src=t)
nl.fori_loop(0, upper, step)
return out
"""
    executable = compiled(text, {"x": x, "n": np.array([[16]], np.int32)})
    for count in (16, 3):
        got = executable.run({"x": x, "n": np.array([[count]], np.int32)}).outputs[0]
        assert got[:count].tolist() == x[:count].tolist()
        assert bool(np.isnan(got[count:]).all())


@pytest.mark.parametrize("accumulate", ["None", "True", "False"])
@pytest.mark.parametrize("place", ["outside", "inside"])
def test_matmuls_of_a_loop_accumulate_in_psum(accumulate: str, place: str) -> None:
    made = "p = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.psum)\n"
    text = f"""
out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
r = nl.ndarray((4, 8), dtype=nl.float32)
{made if place == "outside" else ""}
def outer(i):
    {made if place == "inside" else "pass"}
    def step(k):
        a = nl.ndarray((16, 4), dtype=nl.float32)
        b = nl.ndarray((16, 8), dtype=nl.float32)
        nisa.dma_copy(dst=a, src=x.ap([[4, 16], [1, 4]], scalar_offset=k))
        nisa.dma_copy(dst=b, src=y.ap([[8, 16], [1, 8]], scalar_offset=k))
        nisa.nc_matmul(dst=p, stationary=a, moving=b, accumulate={accumulate})
    nl.fori_loop(0, 64, step, step=16)
    nisa.tensor_copy(dst=r, src=p)
nl.fori_loop(0, 2, outer)
nisa.dma_copy(dst=out, src=r)
return out
"""
    x, y = normal(64, 4), normal(64, 8, name="y")
    got = run_kernel(text, {"x": x, "y": y}).outputs[0]
    if accumulate == "True":
        assert bool(np.isnan(got).all())
    elif accumulate == "False":
        np.testing.assert_allclose(got, x[48:].T @ y[48:], rtol=1e-5, atol=1e-5)
    else:
        times = 2 if place == "outside" else 1
        np.testing.assert_allclose(got, times * (x.T @ y), rtol=1e-4, atol=1e-4)


def test_each_run_begins_with_empty_psum() -> None:
    text = """
out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
p = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.psum)
a = nl.load(x)
def step(k):
    nisa.nc_matmul(dst=p, stationary=a, moving=a)
nl.fori_loop(0, 3, step)
r = nl.ndarray((4, 4), dtype=nl.float32)
nisa.tensor_copy(dst=r, src=p)
nisa.dma_copy(dst=out, src=r)
return out
"""
    x = normal(4, 4)
    executable = compiled(text, {"x": x})
    for _ in range(2):
        np.testing.assert_allclose(executable.run({"x": x}).outputs[0], 3 * (x.T @ x), rtol=1e-5)


def test_no_reorder_keeps_program_order() -> None:
    text = """
out = nl.ndarray((1, 2), dtype=nl.float32, buffer=nl.shared_hbm)
t = nl.ndarray((1, 2), dtype=nl.float32)
with nl.no_reorder():
    nisa.memset(dst=t, value=1.0)
    nisa.memset(dst=t[:, 0:1], value=2.0)
nisa.dma_copy(dst=out, src=t)
return out
"""
    assert run_kernel(text, {"x": normal(1, 1)}).outputs[0].tolist() == [[2, 1]]


def test_order_given_by_depends_on_changes_no_value() -> None:
    text = """
out = nl.ndarray((1, 2), dtype=nl.float32, buffer=nl.shared_hbm)
t = nl.ndarray((1, 2), dtype=nl.float32)
first = nisa.memset(dst=t, value=1.0)
nisa.memset(dst=t[:, 0:1], value=2.0).depends_on(first)
nisa.dma_copy(dst=out, src=t)
return out
"""
    assert run_kernel(text, {"x": normal(1, 1)}).outputs[0].tolist() == [[2, 1]]


def test_a_program_without_loops_has_no_trips() -> None:
    text = """
out = nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=nl.load(x))
return out
"""
    result = run_kernel(text, {"x": normal(2, 2)})
    assert (result.trips.loops, result.trips.rows) == ((), ())
