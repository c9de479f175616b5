"""NK601 where short descriptors cost time."""

from nki_agent.base.diagnostic import Severity
from tests.cost.kernels import COPY, run


def test_many_short_descriptors_are_one_finding_a_place() -> None:
    timeline = run(COPY.format(columns=32), {"x": (256, 512)})
    assert [f.code for f in timeline.findings] == ["NK601", "NK601"]
    loads = timeline.findings[0]
    assert loads.severity is Severity.ADVICE
    assert loads.got == "128 bytes"
    assert loads.where[-1].file == "kernel.py"
    assert "4096 descriptors of 32 `dma_copy`" in loads.what


def test_long_descriptors_are_no_finding() -> None:
    assert run(COPY.format(columns=512), {"x": (256, 512)}).findings == ()


def test_a_few_short_descriptors_are_no_finding() -> None:
    source = """(x, bias):
    out = hbm(x.shape)
    column = sbuf((128, 1))
    nisa.dma_copy(dst=column, src=bias)
    for r in range(0, x.shape[0], 128):
        tile = sbuf((128, 4096))
        nisa.dma_copy(dst=tile, src=x[r : r + 128, :])
        nisa.activation(dst=tile, op=nl.exp, data=tile, bias=column)
        nisa.dma_copy(dst=out[r : r + 128, :], src=tile)
    return out
"""
    assert run(source, {"x": (1024, 4096), "bias": (128, 1)}).findings == ()
