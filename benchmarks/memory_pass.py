"""Times the memory pass: `python benchmarks/memory_pass.py`.

Prints microseconds an instruction for a Program of 40,000 instructions of each kind, and
milliseconds for a small one, beside the limits that the pass is held to.
"""

import time
from collections.abc import Callable
from functools import partial

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.memory.dependence import find_independent_results
from nki_agent.memory.placement import place_program
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.program.records import Program

HEAD = """
import nki
import nki.language as nl
import nki.isa as nisa

@nki.jit
def kernel(x):
    rows, cols = x.shape
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
"""
SOFTMAX = (
    HEAD
    + """
    for r in range(0, rows, 128):
        n = min(128, rows - r)
        t = nl.ndarray((n, cols), dtype=nl.float32)
        nisa.dma_copy(dst=t, src=x[r:r + n])
        m = nl.ndarray((n, 1), dtype=nl.float32)
        nisa.tensor_reduce(dst=m, op=nl.maximum, data=t, axis=1, negate=True)
        e = nl.ndarray((n, cols), dtype=nl.float32)
        s = nl.ndarray((n, 1), dtype=nl.float32)
        nisa.activation(dst=e, op=nl.exp, data=t, bias=m, reduce_op=nl.add, reduce_res=s,
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)
        d = nl.ndarray((n, 1), dtype=nl.float32)
        nisa.reciprocal(dst=d, data=s)
        y = nl.ndarray((n, cols), dtype=nl.float32)
        nisa.tensor_scalar(dst=y, data=e, op0=nl.multiply, operand0=d)
        nisa.dma_copy(dst=o[r:r + n], src=y)
    return o
"""
)
PIECES = (
    HEAD
    + """
    for r in range(0, rows, 128):
        t = nl.ndarray((128, cols), dtype=nl.float32)
        for c in range(0, cols, 8):
            nisa.dma_copy(dst=t[:, c:c + 8], src=x[r:r + 128, c:c + 8])
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=o[r:r + 128], src=t)
    return o
"""
)
TAIL = (
    HEAD
    + """
    for r in range(0, rows, 100):
        t = nl.ndarray((128, cols), dtype=nl.float32)
        nisa.dma_copy(dst=t[0:100], src=x[r:r + 100])
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=o[r:r + 100], src=t[0:100])
    return o
"""
)
MATMUL = (
    HEAD
    + """
    for r in range(0, rows, 128):
        a = nl.ndarray((128, 128), dtype=nl.float32)
        nisa.dma_copy(dst=a, src=x[r:r + 128, 0:128])
        p = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        for k in range(4):
            nisa.nc_matmul(dst=p, stationary=a, moving=a, accumulate=k > 0)
        y = nl.ndarray((128, 128), dtype=nl.float32)
        nisa.tensor_copy(dst=y, src=p)
        nisa.dma_copy(dst=o[r:r + 128], src=y)
    return o
"""
)
KINDS = {
    "softmax": (SOFTMAX, (853_250, 64)),
    "pieces": (PIECES, (256_000, 160)),
    "tail": (TAIL, (1_333_300, 32)),
    "matmul": (MATMUL, (731_264, 128)),
    "small": (SOFTMAX, (1024, 1024)),
}
LIMIT_US, LIMIT_MS = 2.5, 3.0


def best_ms(run: Callable[[], object], *, repeats: int = 5) -> float:
    """The fastest of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def trace(source: str, shape: tuple[int, int]) -> Program:
    reply = trace_source(source, [ArgumentSpec("x", shape, DType.FLOAT32)])
    if reply.program is None:
        raise SystemExit(str(reply.findings))
    return reply.program


def main() -> None:
    chip = load_chip(Target.TRN2)
    print(f"{'kind':10}{'instructions':>14}{'ms':>9}{'us each':>9}{'dependence':>12}  findings")
    for kind, (source, shape) in KINDS.items():
        program = trace(source, shape)
        count = len(program.bodies[0])
        place_ms = best_ms(partial(place_program, program, chip))
        taint_ms = best_ms(partial(find_independent_results, program))
        codes = sorted({f.code for f in place_program(program, chip)[1]})
        each, other = place_ms * 1e3 / count, taint_ms * 1e3 / count
        print(f"{kind:10}{count:>14}{place_ms:>9.2f}{each:>9.2f}{other:>12.2f}  {codes}")
    print(f"limits: {LIMIT_US} us an instruction, {LIMIT_MS} ms for the small one")


if __name__ == "__main__":
    main()
