"""NK204: one matmul result inside one PSUM bank."""

import pytest

from nki_agent.chip.spec import Target
from tests.memory.traced import HEAD_LINES, Placed, place_body

BODY = """
    o = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.ndarray((128, 64), dtype=nl.float32)
    y = nl.ndarray((128, 512), dtype=nl.float32)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    p = nl.ndarray((64, 1536), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p[:, {start}:{start} + 512], stationary=x, moving=y)
    s = nl.ndarray((64, 512), dtype=nl.float32)
    nisa.tensor_copy(dst=s, src=p[:, {start}:{start} + 512])
    nisa.dma_copy(dst=o, src=s)
    return o
"""


def place_at(start: int, target: Target) -> Placed:
    return place_body(BODY.format(start=start), (128, 64), (128, 512), target=target)


@pytest.mark.parametrize("start", [0, 512, 1024])
def test_result_that_fills_a_bank_is_allowed(start: int) -> None:
    assert place_at(start, Target.TRN2).codes == []


@pytest.mark.parametrize("start", [1, 256, 1023])
def test_result_that_crosses_a_bank_is_refused_at_its_line(start: int) -> None:
    placed = place_at(start, Target.TRN2)
    assert placed.codes == ["NK204"]
    assert placed.findings[0].where[-1].line == HEAD_LINES + 8


def test_result_may_span_banks_where_the_chip_lets_one_matmul_fill_several() -> None:
    assert place_at(256, Target.TRN3).codes == []
