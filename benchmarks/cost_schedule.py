"""Prints how long scheduling takes for an instruction, on Programs of about 40,000.

Run: python benchmarks/cost_schedule.py
"""

from __future__ import annotations

import time

from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.summary import summarise
from nki_agent.cost.timeline import schedule
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source

HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl

"""
MATMUL = """
@nki.jit
def kernel(a, b):
    k, m = a.shape
    n = b.shape[1]
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(m // 128):
        left = nl.ndarray((128, k // 128, 128), dtype=a.dtype, buffer=nl.sbuf)
        for c in range(k // 128):
            rows = slice(c * 128, c * 128 + 128)
            nisa.dma_copy(dst=left[:, c, :], src=a[rows, i * 128 : i * 128 + 128])
        for j in range(n // 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for c in range(k // 128):
                right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
                rows = slice(c * 128, c * 128 + 128)
                nisa.dma_copy(dst=right, src=b[rows, j * 512 : j * 512 + 512])
                nisa.nc_matmul(dst=total, stationary=left[:, c, :], moving=right)
            tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=tile, op=nl.relu, data=total)
            nisa.dma_copy(dst=out[i * 128 : i * 128 + 128, j * 512 : j * 512 + 512], src=tile)
    return out
"""
CHAIN = """
@nki.jit
def kernel(a):
    n, f = a.shape
    out = nl.ndarray((n, f), dtype=a.dtype, buffer=nl.shared_hbm)
    for r in range(0, n, 128):
        for c in range(0, f, 512):
            tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[r : r + 128, c : c + 512])
            for _ in range(6):
                more = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
                nisa.activation(dst=more, op=nl.exp, data=tile)
                nisa.tensor_tensor(dst=tile, data1=tile, data2=more, op=nl.add)
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
            nisa.dma_copy(dst=out[r : r + 128, c : c + 512], src=tile)
    return out
"""
COPIES = """
@nki.jit
def kernel(a):
    n, f = a.shape
    out = nl.ndarray((n, f), dtype=a.dtype, buffer=nl.shared_hbm)
    for r in range(0, n, 128):
        for c in range(0, f, 64):
            tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[r : r + 128, c : c + 64])
            nisa.dma_copy(dst=out[r : r + 128, c : c + 64], src=tile)
    return out
"""
CASES = {
    "matmul": (MATMUL, {"a": (4096, 2048), "b": (4096, 4096)}),
    "element-wise chain": (CHAIN, {"a": (8192, 16384)}),
    "copies of narrow column tiles": (COPIES, {"a": (10240, 16384)}),
}


def main() -> None:
    chip = load_chip(Target.TRN2)
    for name, (source, shapes) in CASES.items():
        arguments = [ArgumentSpec(n, shape, DType.BFLOAT16) for n, shape in shapes.items()]
        reply = trace_source(HEAD + source, arguments, target=Target.TRN2)
        assert reply.program is not None, reply.findings
        begin = time.perf_counter()
        timeline = schedule(reply.program, chip)
        scheduled = time.perf_counter()
        summarise(timeline, reply.program)
        summarised = time.perf_counter()
        num = timeline.num_instructions
        print(
            f"{name}: {num} instructions, schedule {1e6 * (scheduled - begin) / num:.2f} µs each,"
            f" summary {1e6 * (summarised - scheduled) / num:.2f} µs each"
        )


if __name__ == "__main__":
    main()
