"""Numbers that no register holds: the low 32 bits count, before and during a run."""

from __future__ import annotations

import numpy as np
import pytest

from nki_agent.program.registers import find_constants, wrap
from tests.kernels import body, f32, traced
from tests.sim.traced import run_kernel

TEXT = """
out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
tile = nl.load(x)
upper = nisa.register_alloc()
nisa.register_move(upper, {number})
def step(i):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
nl.fori_loop(0, upper, step)
nl.store(out, tile)
return out
"""


@pytest.mark.parametrize("number", [3, 2**32 + 3, 2**63 + 3, 2**32, -1, 2**31])
def test_loop_bound_is_the_low_bits_of_a_number(number: int) -> None:
    x = np.zeros((4, 4), np.float32)
    (out,) = run_kernel(TEXT.format(number=number), {"x": x}).outputs
    assert out[0, 0] == max(0, wrap(number))
    program = traced(body(TEXT.format(number=number)), [f32("x", 4, 4)])
    assert set(find_constants(program).values()) == {wrap(number)}
