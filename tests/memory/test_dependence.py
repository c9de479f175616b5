"""Which results no argument reaches."""

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
