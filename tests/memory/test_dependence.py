"""Which results no argument reaches."""

import pytest

from nki_agent.memory.dependence import find_independent_results
from nki_agent.program.records import Access
from tests.memory.traced import trace_body


def test_result_of_constants_alone_is_named() -> None:
    program = trace_body(
        """
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        z = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((8, 8), dtype=nl.float32)
        nisa.dma_copy(dst=t, src=a)
        nisa.dma_copy(dst=o, src=t)
        u = nl.ndarray((8, 8), dtype=nl.float32)
        nisa.memset(dst=u, value=0.0)
        nisa.dma_copy(dst=z, src=u)
        return o, z
        """,
        (8, 8),
    )
    assert find_independent_results(program) == (1,)


def test_argument_reaches_through_scalars_and_matmuls() -> None:
    program = trace_body(
        """
        o = nl.ndarray((8, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((8, 8), dtype=nl.float32)
        nisa.memset(dst=t, value=1.0)
        s = nl.ndarray((8, 1), dtype=nl.float32)
        nisa.dma_copy(dst=s, src=a)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=s)
        p = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=p, stationary=t, moving=t)
        u = nl.ndarray((8, 8), dtype=nl.float32)
        nisa.tensor_copy(dst=u, src=p)
        nisa.dma_copy(dst=o, src=u)
        return o
        """,
        (8, 1),
    )
    assert find_independent_results(program) == ()


def test_argument_read_after_the_store_does_not_reach_it() -> None:
    program = trace_body(
        """
        o = nl.ndarray((8, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((8, 8), dtype=nl.float32)
        nisa.memset(dst=t, value=1.0)
        nisa.dma_copy(dst=o, src=t)
        nisa.dma_copy(dst=t, src=a)
        return o
        """,
        (8, 8),
    )
    assert find_independent_results(program) == (0,)


def test_returned_argument_depends_on_itself() -> None:
    program = trace_body("return a", (8, 8), access=Access.UPDATE)
    assert find_independent_results(program) == ()


REGISTER = """
n = nl.ndarray((1, 1), dtype=nl.int32)
{load}
r = nisa.register_alloc()
nisa.register_load(r, n)
o = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.shared_hbm)
t = nl.zeros((1, 8), dtype=nl.float32)
{use}
return o
"""
READ = "nisa.dma_copy(dst=n, src=a[0:1, 0:1])"
FILL = "nisa.memset(dst=n, value=1)"
MOVED = "nisa.dma_copy(dst=o.ap([[8, 1], [1, 8]], scalar_offset=r), src=t)"
BOUND = "def step(i):\n    nisa.dma_copy(dst=o[0:1], src=t)\nnl.fori_loop(0, r, step)"


@pytest.mark.parametrize("use", [MOVED, BOUND])
def test_value_goes_on_through_registers(use: str) -> None:
    for load, independent in ((READ, ()), (FILL, (0,))):
        program = trace_body(REGISTER.format(load=load, use=use), (8, 8))
        assert find_independent_results(program) == independent


def test_value_goes_back_round_a_loop() -> None:
    program = trace_body(
        """
        o = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        p = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.zeros((8, 8), dtype=nl.float32)
        u = nl.zeros((8, 8), dtype=nl.float32)
        nisa.dma_copy(dst=p, src=t)
        def step(i):
            nisa.dma_copy(dst=o, src=u)
            nisa.tensor_copy(dst=u, src=t)
            nisa.dma_copy(dst=t, src=a)
        nl.fori_loop(0, 4, step)
        return o, p
        """,
        (8, 8),
    )
    assert find_independent_results(program) == (1,)


def test_value_goes_on_through_accumulators() -> None:
    text = """
        o = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.ndarray((8, 8), dtype=nl.float32)
        {load}
        z = nl.zeros((8, 8), dtype=nl.float32)
        s = nl.ndarray((8, 1), dtype=nl.float32)
        nisa.activation(dst=z, op=nl.exp, data=t, reduce_op=nl.add,
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.memset(dst=z, value=0.0)
        nisa.activation(dst=z, op=nl.exp, data=z, reduce_op=nl.add, reduce_res=s,
                        reduce_cmd=nisa.reduce_cmd.reduce)
        nisa.dma_copy(dst=o, src=s)
        return o
    """
    for load, independent in (
        ("nisa.dma_copy(dst=t, src=a)", ()),
        ("nisa.memset(dst=t, value=0.0)", (0,)),
    ):
        assert find_independent_results(trace_body(text.format(load=load), (8, 8))) == independent


def test_value_goes_to_the_other_core() -> None:
    program = trace_body(
        """
        o = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.zeros((8, 8), dtype=nl.float32)
        u = nl.zeros((8, 8), dtype=nl.float32)
        core = nl.program_id(0)
        if core:
            nisa.dma_copy(dst=t, src=a)
        nisa.sendrecv(src=t, dst=u, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        if not core:
            nisa.dma_copy(dst=o, src=u)
        return o
        """,
        (8, 8),
        cores=2,
    )
    assert find_independent_results(program) == ()
