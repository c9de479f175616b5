"""MX products, running sums, exponentials and DMA sums from kernel source to values."""

import ml_dtypes
import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import find_dtype
from nki_agent.memory.placement import place_program
from nki_agent.nki.current.tracing import ArgumentSpec
from nki_agent.sim.execute import RunResult, compile_program
from tests.kernels import body, traced
from tests.sim.build import Array


def run(text: str, target: Target, /, **arrays: Array) -> RunResult:
    """Trace, place and run a kernel with this body; nothing may be found."""
    forms = [ArgumentSpec(n, a.shape, find_dtype(a.dtype)) for n, a in arrays.items()]
    program = traced(body(text, params=", ".join(arrays)), forms, target=target)
    assert place_program(program, load_chip(target))[1] == ()
    return compile_program(program, load_chip(target)).run(arrays)


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(np.float32)


QUANTISE = """\
xs = nl.load(x)
ws = nl.load(w)
scales = nl.ndarray((128, 24), dtype=nl.uint8, buffer=nl.sbuf)
xq = nl.ndarray((128, 8), dtype=nl.{moving}, buffer=nl.sbuf)
wq = nl.ndarray((128, 24), dtype=nl.{stationary}, buffer=nl.sbuf)
nisa.quantize_mx(dst=xq, src=xs, dst_scale=scales[0:, :8])
nisa.quantize_mx(dst=wq, src=ws, dst_scale=scales[4:, :])
ps = nl.ndarray((24, 8), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul_mx(ps, wq, xq, stationary_scale=scales[4:, :], moving_scale=scales[0:, :8])
out = nl.ndarray((24, 8), dtype=nl.float32, buffer=nl.shared_hbm)
nl.store(out, nl.copy(ps))
return out
"""


@pytest.mark.parametrize("stationary", ["float8_e4m3fn_x4", "float8_e5m2_x4"])
@pytest.mark.parametrize("moving", ["float8_e4m3fn_x4", "float8_e5m2_x4"])
def test_quantised_product_is_near_the_product(stationary: str, moving: str) -> None:
    x = normal(128, 32).astype(ml_dtypes.bfloat16)
    w = normal(128, 96, name="w").astype(ml_dtypes.bfloat16)
    text = QUANTISE.format(stationary=stationary, moving=moving)
    got = run(text, Target.TRN3, x=x, w=w).outputs[0]
    parts = [a.astype(np.float64).reshape(128, -1, 4) for a in (w, x)]
    wanted = np.einsum("kmq,knq->mn", *parts)
    assert np.linalg.norm(got - wanted) < 0.1 * np.linalg.norm(wanted)


def test_packed_data_comes_from_host_bytes() -> None:
    """Four-bit codes of ones, two in a byte, all scales 1: each sum is 4 * 32."""
    got = run(
        """\
w = nl.ndarray((32, 2), dtype=nl.float4_e2m1fn_x4, buffer=nl.sbuf)
nisa.dma_copy(dst=w, src=x.view(nl.float4_e2m1fn_x4))
s = nl.ndarray((4, 2), dtype=nl.float8_e8m0fnu, buffer=nl.sbuf)
nisa.memset(dst=s, value=1.0)
ps = nl.ndarray((2, 2), dtype=nl.bfloat16, buffer=nl.psum)
nisa.nc_matmul_mx(dst=ps, stationary=w, moving=w, stationary_scale=s, moving_scale=s)
out = nl.ndarray((2, 2), dtype=nl.bfloat16, buffer=nl.shared_hbm)
nl.store(out, nl.copy(ps))
return out
""",
        Target.TRN3,
        x=np.full((32, 4), 0x22, np.uint8),
    )
    assert got.outputs[0].astype(np.float32).tolist() == [[128.0, 128.0]] * 2


def test_running_sum_goes_on_over_tiles() -> None:
    x = normal(4, 10)
    got = run(
        """\
t = nl.load(x)
nisa.tensor_scalar_cumulative(t[:, :6], t[:, :6], nl.multiply, nl.add, 1.0)
nisa.tensor_scalar_cumulative(
    t[:, 6:], t[:, 6:], nl.multiply, nl.add, 1.0, reduce_cmd=nisa.reduce_cmd.reduce
)
out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
nl.store(out, t)
return out
""",
        Target.TRN2,
        x=x,
    )
    assert got.outputs[0].tolist() == np.add.accumulate(x, 1).tolist()


def test_softmax_by_exponential_and_activate2() -> None:
    x = normal(8, 30)
    got = run(
        """\
t = nl.load(x)
top = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_reduce(dst=top, op=nl.maximum, data=t, axis=1)
total = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
cmd = nisa.reduce_cmd.reset_reduce
nisa.exponential(dst=t, src=t, max_value=top, reduce_res=total, reduce_cmd=cmd)
nisa.reciprocal(dst=total, data=total)
nisa.activate2(t, nl.copy, t, total, 0.0, op0=nl.multiply, op1=nl.bypass)
nl.device_print("softmax", t[0:1, 0:3])
out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
nl.store(out, t)
return out
""",
        Target.TRN3,
        x=x,
    )
    wanted = np.exp(x - x.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    assert got.outputs[0] == pytest.approx(wanted, rel=1e-6)
    ((prefix, printed),) = got.printed
    assert (prefix, printed.tolist()) == ("softmax", got.outputs[0][:1, :3].tolist())


def test_dma_adds_tensors_of_hbm_and_sbuf() -> None:
    x, y = normal(4, 6), normal(4, 6, name="y")
    got = run(
        """\
t = nl.load(x)
out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
nisa.dma_compute(out, [t, y, x], nl.add)
return out
""",
        Target.TRN2,
        x=x,
        y=y,
    )
    assert got.outputs[0].tolist() == ((x + y) + x).tolist()
