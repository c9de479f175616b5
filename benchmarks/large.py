"""Times a matrix product of 4096 x 4096 x 4096 in bfloat16 from source to latency, on one core.

It is 8,192 `nc_matmul` and what feeds them. Prints the seconds of each step and the peak memory,
and the size and decoding time of the Program; beside the run, NumPy on the same tiles. A broken
limit ends with exit status 1.
Run: python benchmarks/large.py
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np  # noqa: E402 - the affinity comes first

from nki_agent.base.seeds import rng_for  # noqa: E402
from nki_agent.check.source import check_source  # noqa: E402
from nki_agent.chip.spec import Target, load_chip  # noqa: E402
from nki_agent.cost.timeline import schedule  # noqa: E402
from nki_agent.isa.dtype import DType  # noqa: E402
from nki_agent.memory.dependence import find_independent_results  # noqa: E402
from nki_agent.memory.placement import place_program  # noqa: E402
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source  # noqa: E402
from nki_agent.program.stored import decode_program, encode_program  # noqa: E402
from nki_agent.program.validate import check_program  # noqa: E402
from nki_agent.sim.execute import compile_program  # noqa: E402

N = 4096
SECONDS_MAX, GIB_MAX = 4.0, 3.0
CODED_BYTES_MAX, DECODE_US_MAX = 100.0, 1.0
SOURCE = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(a, b):
    k_size, m_size = a.shape
    n_size = b.shape[1]
    out = nl.ndarray((m_size, n_size), dtype=a.dtype, buffer=nl.shared_hbm)
    for m in range(0, m_size, 128):
        stationary = []
        for k in range(0, k_size, 128):
            tile = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[k : k + 128, m : m + 128])
            stationary.append(tile)
        for n in range(0, n_size, 512):
            psum = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, k_size, 128):
                moving = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=moving, src=b[k : k + 128, n : n + 512])
                nisa.nc_matmul(dst=psum, stationary=stationary[k // 128], moving=moving)
            tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=psum)
            nisa.dma_copy(dst=out[m : m + 128, n : n + 512], src=tile)
    return out
"""
T = TypeVar("T")


class Clock:
    """Seconds of each step, printed as they end."""

    def __init__(self) -> None:
        self.total = 0.0

    def time(self, name: str, step: Callable[[], T], *, counts: bool = True) -> T:
        start = time.perf_counter()
        value = step()
        seconds = time.perf_counter() - start
        self.total += seconds if counts else 0.0
        sys.stdout.write(f"{name:18s} {seconds:8.3f} s\n")
        return value


def plain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The kernel's tiles in float32, which holds products of bfloat16 exactly."""
    out = np.empty((N, N), a.dtype)
    product, total = np.empty((2, 128, 512), np.float32)
    for m in range(0, N, 128):
        wide = [a[k : k + 128, m : m + 128].astype(np.float32) for k in range(0, N, 128)]
        for n in range(0, N, 512):
            for k in range(0, N, 128):
                moving = b[k : k + 128, n : n + 512].astype(np.float32)
                np.matmul(wide[k // 128].T, moving, product if k else total)
                if k:
                    np.add(total, product, total)
            out[m : m + 128, n : n + 512] = total.astype(a.dtype)
    return out


def decode_seconds(coded: bytes) -> float:
    start = time.perf_counter()
    decode_program(coded)
    return time.perf_counter() - start


def main() -> int:
    target, dtype = Target.TRN2, DType.BFLOAT16
    chip, clock = load_chip(target), Clock()
    specs = [ArgumentSpec(name, (N, N), dtype) for name in ("a", "b")]
    files = {"kernel.py": SOURCE}
    assert not clock.time("check source", lambda: check_source(files, "kernel.py", target=target))
    reply = clock.time("trace", lambda: trace_source(SOURCE, specs, target=target))
    assert reply.program is not None, reply.findings
    program = reply.program
    coded = clock.time("encode", lambda: encode_program(program))
    program = clock.time("decode", lambda: decode_program(coded))
    decode_us = min(decode_seconds(coded) for _ in range(5)) * 1e6 / program.num_instructions
    assert not clock.time("validate", lambda: check_program(program, chip))
    placement, findings = clock.time("place", lambda: place_program(program, chip))
    assert not [f for f in findings if f.severity == "error"], findings
    assert not clock.time("dependence", lambda: find_independent_results(program))
    executable = clock.time("compile", lambda: compile_program(program, chip))
    values = rng_for(0, "large")
    arrays = {n: values.random((N, N), np.float32).astype(dtype.numpy_dtype) for n in "ab"}
    result = clock.time("run", lambda: executable.run(arrays)).outputs[0]
    timeline = clock.time("schedule", lambda: schedule(program, chip, placement))
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    wanted = clock.time("NumPy, same tiles", lambda: plain(arrays["a"], arrays["b"]), counts=False)
    assert np.array_equal(result, wanted)
    coded_bytes = len(coded) / program.num_instructions
    sys.stdout.write(
        f"{program.num_instructions} instructions, {timeline.latency_ns / 1e6:.2f} ms modelled\n"
        f"{clock.total:.2f} s in all (limit {SECONDS_MAX}), {peak_gib:.2f} GiB (limit {GIB_MAX})\n"
        f"{coded_bytes:.0f} bytes (limit {CODED_BYTES_MAX:.0f}) and {decode_us:.2f} µs to decode"
        f" (limit {DECODE_US_MAX}) for each instruction\n"
    )
    good = clock.total <= SECONDS_MAX and peak_gib <= GIB_MAX
    return 0 if good and coded_bytes <= CODED_BYTES_MAX and decode_us <= DECODE_US_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
