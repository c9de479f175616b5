"""Kernels whose latency on Trn1 was published, against the model.

The kernels are ours, written after the description of what was measured. What agrees and what does
not is listed in docs/concepts/limits-of-the-cost-model.md.
"""

import pytest

from nki_agent.chip.spec import Target
from nki_agent.cost.timeline import Timeline, schedule
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine
from nki_agent.memory.placement import place_program
from tests.cost.kernels import COPY, Shapes, trace, trn1

MS = 1e6

BATCHED_MATMUL = """(a, b):
    batch, k, m = a.shape
    n = b.shape[2]
    out = hbm((batch, m, n))
    for g in range(batch):
        left, right = sbuf((k, m)), sbuf((k, n))
        nisa.dma_copy(dst=left, src=a[g, :, :])
        nisa.dma_copy(dst=right, src=b[g, :, :])
        for i in range(0, m, 128):
            tile = sbuf((128, n))
            for j in range(0, n, 512):
                total = psum((128, 512))
                nisa.nc_matmul(
                    dst=total, stationary=left[:, i : i + 128], moving=right[:, j : j + 512]
                )
                nisa.activation(dst=tile[:, j : j + 512], op=nl.copy, data=total)
            nisa.dma_copy(dst=out[g, i : i + 128, :], src=tile)
    return out
"""

BLOCKED_MATMUL = """(a, b):
    k, m = a.shape
    n = b.shape[1]
    out = hbm((m, n), a.dtype)
    for block in range(0, m, 512):
        left = sbuf((128, k // 128, 512), a.dtype)
        for c in range(k // 128):
            nisa.dma_copy(
                dst=left[:, c, :], src=a[c * 128 : c * 128 + 128, block : block + 512]
            )
        for j in range(0, n, 512):
            totals = []
            for i in range(4):
                totals.append(psum((128, 512)))
            for group in range(0, k // 128, 8):
                right = sbuf((128, 8, 512), b.dtype)
                for c in range(8):
                    row = (group + c) * 128
                    nisa.dma_copy(dst=right[:, c, :], src=b[row : row + 128, j : j + 512])
                for i in range(4):
                    for c in range(8):
                        nisa.nc_matmul(
                            dst=totals[i],
                            stationary=left[:, group + c, i * 128 : i * 128 + 128],
                            moving=right[:, c, :],
                        )
            for i in range(4):
                tile = sbuf((128, 512), a.dtype)
                nisa.activation(dst=tile, op=nl.copy, data=totals[i])
                row = block + i * 128
                nisa.dma_copy(dst=out[row : row + 128, j : j + 512], src=tile)
    return out
"""


def run_placed(source: str, shapes: Shapes, *, dtype: DType = DType.FLOAT32) -> Timeline:
    """The Timeline on Trn1 with the addresses that the memory pass gives."""
    program = trace(source, shapes, target=Target.TRN1, dtype=dtype)
    placement, findings = place_program(program, trn1())
    assert findings == ()
    return schedule(program, trn1(), placement)


def test_streaming_rate_lies_in_the_measured_range() -> None:
    """Counters of several kernels: 256 to 302 GB/s a core."""
    timeline = run_placed(COPY.format(columns=2048), {"x": (4096, 4096)})
    rate = (timeline.dma.read_bytes + timeline.dma.written_bytes) / timeline.latency_ns
    assert 256 <= rate <= 302


def test_batched_matmul_in_float32() -> None:
    """4.611 ms, 37.3 % of it on the scalar engine, with spills that our kernel does not make."""
    shapes = {"a": (16, 64, 4096), "b": (16, 64, 4096)}
    timeline = run_placed(BATCHED_MATMUL, shapes)
    assert timeline.latency_ns == pytest.approx(4.611 * MS, rel=0.15)
    assert timeline.busy_ns[Engine.SCALAR] == pytest.approx(0.373 * 4.611 * MS, rel=0.25)


def test_blocked_matmul_in_bfloat16() -> None:
    """The tutorial's fastest version: 6.97 ms, 85 % of the array's rate."""
    shapes = {"a": (8192, 4096), "b": (8192, 8192)}
    timeline = run_placed(BLOCKED_MATMUL, shapes, dtype=DType.BFLOAT16)
    assert timeline.latency_ns == pytest.approx(6.97 * MS, rel=0.15)


def test_float32_matmul_that_reloads_is_bound_by_its_bytes() -> None:
    """35.2 ms for 9.261 GB: what streaming at the effective rate takes, within 5 %."""
    timeline = run_placed(COPY.format(columns=512), {"x": (2048, 4096)})
    moved = timeline.dma.read_bytes + timeline.dma.written_bytes
    scaled = timeline.latency_ns * 9_261e6 / moved
    assert scaled == pytest.approx(35.2 * MS, rel=0.05)
