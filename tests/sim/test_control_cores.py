"""Two cores: shared memory, barriers, exchanges, and what waits for ever."""

from __future__ import annotations

import numpy as np
import pytest

from nki_agent.base.diagnostic import Severity
from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.program.records import MovedRows
from tests.sim.build import Array
from tests.sim.traced import failed, line_of, run_kernel


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(np.float32)


X = {"x": normal(8, 4)}
HEAD = """
core = nl.program_id(0)
out = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm, name="out")
half = nl.ndarray((4, 4), dtype=nl.float32)
"""
HALVES = (
    HEAD
    + """
nisa.dma_copy(dst=half, src=x[core * 4:core * 4 + 4, :])
nisa.tensor_scalar(dst=half, data=half, op0=nl.multiply, operand0=2.0)
nisa.dma_copy(dst=out[core * 4:core * 4 + 4, :], src=half)
"""
)


def test_two_cores_share_hbm_and_have_chips_of_their_own() -> None:
    result = run_kernel(HALVES + "return out", X, cores=2)
    assert result.outputs[0].tolist() == (2 * X["x"]).tolist()
    assert result.findings == ()


OTHER_HALF = """
final = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)
{barrier}
other = 1 - core
nisa.dma_copy(dst=half, src=out[other * 4:other * 4 + 4, :])
nisa.dma_copy(dst=final[core * 4:core * 4 + 4, :], src=half)
return final
"""
BARRIER = "nisa.core_barrier(data=out, cores=(0, 1))"


def test_a_barrier_lets_a_core_read_what_the_other_wrote() -> None:
    result = run_kernel(HALVES + OTHER_HALF.format(barrier=BARRIER), X, cores=2)
    want = 2 * np.concatenate([X["x"][4:], X["x"][:4]])
    assert result.outputs[0].tolist() == want.tolist()
    assert result.findings == ()


@pytest.mark.parametrize("barrier", ["", "nisa.core_barrier(data=final, cores=(0, 1))"])
def test_reading_without_a_barrier_on_the_tensor_is_an_error(barrier: str) -> None:
    text = HALVES + OTHER_HALF.format(barrier=barrier)
    (finding, *more) = run_kernel(text, X, cores=2).findings
    assert (finding.code, finding.severity) == ("NK402", Severity.ERROR)
    assert finding.where[-1].line == line_of(text, "nisa.dma_copy(dst=half, src=out")
    assert f":{line_of(text, 'nisa.dma_copy(dst=out')}" in finding.what
    assert len(more) <= 1


def test_writes_that_overlap_are_an_error() -> None:
    text = HALVES.replace("dst=out[core * 4:core * 4 + 4, :]", "dst=out[core * 3:core * 3 + 4, :]")
    (finding,) = run_kernel(text + "return out", X, cores=2).findings
    assert finding.code == "NK402"
    assert "core 1 writes bytes of `out` that core 0 writes" in finding.what


def test_columns_of_two_cores_do_not_meet() -> None:
    text = """
core = nl.program_id(0)
out = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)
part = nl.load(x[:, core * 2:core * 2 + 2])
nisa.dma_copy(dst=out[:, core * 2:core * 2 + 2], src=part)
return out
"""
    result = run_kernel(text, X, cores=2)
    assert result.outputs[0].tolist() == X["x"].tolist()
    assert result.findings == ()


LOOPED = """
core = nl.program_id(0)
out = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)
row = nl.ndarray((1, 4), dtype=nl.float32)
def step(i):
    nisa.dma_copy(dst=row, src=x.ap([[4, 1], [1, 4]], scalar_offset=i))
    nisa.dma_copy(dst=out.ap([[4, 1], [1, 4]], scalar_offset=i), src=row)
nl.fori_loop(core * {first}, core * {first} + 4, step)
return out
"""


def test_rows_at_run_time_offsets_are_followed_one_by_one() -> None:
    result = run_kernel(LOOPED.format(first=4), X, cores=2)
    assert result.outputs[0].tolist() == X["x"].tolist()
    assert result.findings == ()
    assert result.trips.loops == (4, 4)
    (finding,) = run_kernel(LOOPED.format(first=3), X, cores=2).findings
    assert finding.code == "NK402"


def test_scattered_rows_are_followed_one_by_one() -> None:
    text = """
core = nl.program_id(0)
out = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)
rows = nl.load(n[core * 4:core * 4 + 4, :])
half = nl.load(x[core * 4:core * 4 + 4, :])
nisa.dma_copy(dst=out.vector_select(0, rows), src=half)
return out
"""
    order = np.array([7, 1, 3, 5, 0, 2, 4, 6], np.int32)
    result = run_kernel(text, {**X, "n": order.reshape(8, 1)}, cores=2)
    want = np.empty((8, 4), np.float32)
    want[order] = X["x"]
    assert result.outputs[0].tolist() == want.tolist()
    assert result.findings == ()
    assert result.trips.rows == (MovedRows(0, 2, 4, 0), MovedRows(1, 2, 4, 0))
    order[7] = 7
    findings = run_kernel(text, {**X, "n": order.reshape(8, 1)}, cores=2).findings
    assert [f.code for f in findings] == ["NK402"]


def test_barriers_in_loops_begin_each_time_anew() -> None:
    text = """
core = nl.program_id(0)
out = nl.ndarray((2, 4), dtype=nl.float32, buffer=nl.shared_hbm)
mine = nl.load(x[core:core + 1, :])
def step(i):
    nisa.dma_copy(dst=out[core:core + 1, :], src=mine)
    nisa.core_barrier(data=out, cores=(0, 1))
    nisa.dma_copy(dst=mine, src=out[1 - core:2 - core, :])
    nisa.tensor_scalar(dst=mine, data=mine, op0=nl.add, operand0=1.0)
    {last}
nl.fori_loop(0, 3, step)
nisa.dma_copy(dst=out[core:core + 1, :], src=mine)
return out
"""
    result = run_kernel(text.format(last="nisa.core_barrier(data=out, cores=(0, 1))"), X, cores=2)
    one = np.float32(1)
    assert result.outputs[0].tolist() == (X["x"][[1, 0]] + one + one + one).tolist()
    assert result.findings == ()
    assert [f.code for f in run_kernel(text.format(last="pass"), X, cores=2).findings]


def test_printed_tensors_come_core_by_core() -> None:
    text = HALVES + "nl.device_print('core', half[0:1, 0:1])\nreturn out"
    printed = run_kernel(text, X, cores=2).printed
    assert [float(array[0, 0]) for _, array in printed] == [2 * X["x"][0, 0], 2 * X["x"][4, 0]]


# Waiting for ever.


TWO_TENSORS = """
other = nl.ndarray((8, 4), nl.float32, buffer=nl.shared_hbm, name='other')
nisa.core_barrier(data=out if core == 0 else other, cores=(0, 1))
"""
SWAP = "nisa.sendrecv(half, half, send_to_rank={to}, recv_from_rank={source}, pipe_id={pipe})"
TWO_PIPES = SWAP.format(to="1 - core", source="1 - core", pipe="core")
TO_ONE = SWAP.format(to=0, source=1, pipe=0)
TWO_KINDS = f"if core == 0:\n    {BARRIER}\nelse:\n    {TO_ONE}"


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (f"if core == 0:\n    {BARRIER}", "core 1 has come to its end"),
        (f"if core == 1:\n    {BARRIER}", "core 0 has come to its end"),
        (TWO_KINDS, "core 1 waits in `sendrecv`"),
        (TWO_TENSORS, "core 1 waits in `core_barrier` on `other`"),
        (TWO_PIPES, "core 1 waits in `sendrecv` with pipe_id 1"),
        (TO_ONE, "core 1 waits for ever for a tile of core 1, which sends its tile to core 0"),
    ],
)
def test_cores_that_wait_for_ever_stop_with_both_lines(tail: str, words: str) -> None:
    finding = failed(HALVES + tail + "\nreturn out", X, cores=2)
    assert finding.code == "NK403"
    assert words in finding.what, finding.what
    assert finding.where


def test_one_core_has_nobody_to_wait_for() -> None:
    finding = failed(HALVES + BARRIER + "\nreturn out", X)
    assert finding.code == "NK403"
    assert "one core" in finding.what


# Exchanges.


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "float8_e5m2"])
def test_sendrecv_swaps_tiles(dtype: str) -> None:
    text = f"""
core = nl.program_id(0)
out = nl.ndarray((8, 4), dtype=nl.{dtype}, buffer=nl.shared_hbm)
mine = nl.load(x[core * 4:core * 4 + 4, :])
got = nl.ndarray((4, 4), dtype=nl.{dtype})
nisa.sendrecv(src=mine, dst=got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
nisa.dma_copy(dst=out[core * 4:core * 4 + 4, :], src=got)
return out
"""
    x = np.arange(32).reshape(8, 4).astype(DType(dtype).numpy_dtype)
    got = run_kernel(text, {"x": x}, cores=2).outputs[0]
    assert got.tobytes() == np.concatenate([x[4:], x[:4]]).tobytes()


def test_sendrecv_in_place_sends_what_was_there_before() -> None:
    text = """
core = nl.program_id(0)
out = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)
mine = nl.load(x[core * 4:core * 4 + 4, :])
def step(i):
    nisa.sendrecv(mine, mine, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
nl.fori_loop(0, 3, step)
nisa.dma_copy(dst=out[core * 4:core * 4 + 4, :], src=mine)
return out
"""
    got = run_kernel(text, X, cores=2).outputs[0]
    assert got.tolist() == np.concatenate([X["x"][4:], X["x"][:4]]).tolist()


def test_exchanges_on_several_pipes_may_come_in_another_order() -> None:
    text = """
core = nl.program_id(0)
out = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
mine = nl.load(x[core * 4:core * 4 + 4, :])
double = nl.ndarray((4, 4), dtype=nl.float32)
nisa.tensor_scalar(dst=double, data=mine, op0=nl.multiply, operand0=2.0)
a = nl.ndarray((4, 4), dtype=nl.float32)
b = nl.ndarray((4, 4), dtype=nl.float32)
for pipe in ((0, 1) if core == 0 else (1, 0)):
    nisa.sendrecv(src=(mine, double)[pipe], dst=(a, b)[pipe], send_to_rank=1 - core,
                  recv_from_rank=1 - core, pipe_id=pipe)
nisa.dma_copy(dst=out[core * 4:core * 4 + 4, 0:4], src=a)
nisa.dma_copy(dst=out[core * 4:core * 4 + 4, 4:8], src=b)
return out
"""
    swapped = np.concatenate([X["x"][4:], X["x"][:4]])
    got = run_kernel(text, X, cores=2).outputs[0]
    assert got.tolist() == np.concatenate([swapped, 2 * swapped], 1).tolist()


def test_tiles_of_two_shapes_are_not_exchanged() -> None:
    text = """
core = nl.program_id(0)
n = 2 + core
out = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)
t = nl.zeros((4, n), dtype=nl.float32)
nisa.sendrecv(t, t, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
return out
"""
    assert failed(text, X, cores=2).code == "NK304"
