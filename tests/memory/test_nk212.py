"""NK212: writes to an argument that is only to be read."""

import pytest

from nki_agent.program.records import Access
from tests.memory.traced import HEAD_LINES, place_body

BODY = """
    t = nl.ndarray((8, 8), dtype=nl.float32)
    nisa.dma_copy(dst=t, src=a)
    nisa.dma_copy(dst=a, src=t)
    o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=o, src=t)
    return o
"""


def test_write_to_an_input_is_refused_at_its_line() -> None:
    placed = place_body(BODY, (8, 8))
    assert placed.codes == ["NK212"]
    assert "input `a`" in placed.findings[0].what
    assert placed.findings[0].where[-1].line == HEAD_LINES + 4


def test_argument_that_is_updated_may_be_written() -> None:
    assert place_body(BODY, (8, 8), access=Access.UPDATE).codes == []


def test_write_to_a_constant_is_refused() -> None:
    body = """
    import numpy as np
    o = nl.shared_constant(np.zeros((8, 8), dtype=np.float32))
    nisa.dma_copy(dst=o, src=a)
    return o
    """
    placed = place_body(body, (8, 8))
    assert placed.codes == ["NK212"]
    assert "constant" in placed.findings[0].what


@pytest.mark.parametrize("access", [Access.READ, Access.UPDATE])
def test_argument_that_is_only_read_is_good(access: Access) -> None:
    body = """
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=o, src=a)
        return o
    """
    assert place_body(body, (8, 8), access=access).codes == []
