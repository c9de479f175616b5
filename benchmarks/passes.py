"""Times the memory and cost passes together: `python benchmarks/passes.py [INSTRUCTIONS ...]`.

Prints microseconds an instruction at 1,000, 10,000 and 100,000 instructions of each kind. Two laws
are checked, and a broken one ends with exit status 1: both passes together take at most `LIMIT_US`
an instruction at the largest size, and the largest Program costs at most `GROWTH_MAX` times as much
for each instruction as the middle one.
"""

import gc
import sys
import time

from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.timeline import schedule
from nki_agent.isa.dtype import DType
from nki_agent.memory.dependence import find_independent_results
from nki_agent.memory.placement import place_program
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.program.records import Program

LIMIT_US, GROWTH_MAX = 15.0, 1.5
SIZES = (1_000, 10_000, 100_000)
REPEATS_MIN = 3
HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, n):
    o = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
"""
KINDS = {
    "chain": (
        8,
        """
    for r in range(n):
        t = nl.ndarray((128, 512), dtype=nl.float32)
        nisa.dma_copy(dst=t, src=x)
        m = nl.ndarray((128, 1), dtype=nl.float32)
        nisa.tensor_reduce(dst=m, op=nl.maximum, data=t, axis=1, negate=True)
        e = nl.ndarray((128, 512), dtype=nl.float32)
        nisa.activation(dst=e, op=nl.exp, data=t, bias=m)
        s = nl.ndarray((128, 1), dtype=nl.float32)
        nisa.tensor_reduce(dst=s, op=nl.add, data=e, axis=1)
        nisa.reciprocal(dst=s, data=s)
        y = nl.ndarray((128, 512), dtype=nl.float32)
        nisa.tensor_scalar(dst=y, data=e, op0=nl.multiply, operand0=s)
        nisa.tensor_tensor(dst=y, data1=y, data2=t, op=nl.add)
        nisa.dma_copy(dst=o, src=y)
""",
    ),
    "matmul": (
        11,
        """
    for r in range(n):
        p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        a = nl.ndarray((128, 512), dtype=nl.float32)
        nisa.dma_copy(dst=a, src=x)
        for k in range(8):
            nisa.nc_matmul(dst=p, stationary=a[:, 0:128], moving=a, accumulate=k > 0)
        y = nl.ndarray((128, 512), dtype=nl.float32)
        nisa.tensor_copy(dst=y, src=p)
        nisa.dma_copy(dst=o, src=y)
""",
    ),
    "columns": (
        18,
        """
    w = nl.ndarray((128, 16 * n), dtype=nl.float32, buffer=nl.private_hbm)
    for r in range(n):
        t = nl.ndarray((128, 16), dtype=nl.float32)
        for k in range(8):
            nisa.dma_copy(dst=t[:, 2 * k:2 * k + 2], src=x[:, 2 * k:2 * k + 2])
            nisa.tensor_scalar(dst=t[:, 2 * k:2 * k + 2], data=t[:, 2 * k:2 * k + 2],
                               op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=w[:, 16 * r:16 * r + 16], src=t)
        nisa.dma_copy(dst=o[:, 0:16], src=w[:, 16 * r:16 * r + 16])
    nisa.dma_copy(dst=o, src=x)
""",
    ),
    "unwritten": (
        3,
        """
    for r in range(n):
        t = nl.ndarray((128, 512), dtype=nl.float32)
        nisa.dma_copy(dst=t[0:100], src=x[0:100])
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=o[0:100], src=t[0:100])
    nisa.dma_copy(dst=o, src=x)
""",
    ),
    "tiny": (
        2,
        """
    held = []
    for r in range(1000):
        t = nl.ndarray((1, 1), dtype=nl.float32)
        nisa.memset(dst=t, value=0.0)
        held.append(t)
    for r in range(max(1, n - 1000)):
        t = nl.ndarray((1, 1), dtype=nl.float32)
        nisa.memset(dst=t, value=0.0)
        nisa.tensor_copy(dst=held[r % 1000], src=t)
    nisa.dma_copy(dst=o, src=x)
""",
    ),
    "loop": (
        3,
        """
    for r in range(max(1, n // 10)):
        def step(i):
            for k in range(10):
                t = nl.ndarray((16, 512), dtype=nl.float32)
                nisa.dma_copy(dst=t, src=x.ap([[512, 16], [1, 512]], scalar_offset=i))
                nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
                nisa.dma_copy(dst=o.ap([[512, 16], [1, 512]], scalar_offset=i), src=t)
        nl.fori_loop(0, 100, step, step=100)
    nisa.dma_copy(dst=o, src=x)
""",
    ),
}


def trace(kind: str, instructions: int) -> Program:
    """A Program of about so many instructions."""
    each, text = KINDS[kind]
    arguments = [
        ArgumentSpec("x", (128, 512), DType.FLOAT32),
        ArgumentSpec("n", None, None, value=max(1, instructions // each)),
    ]
    reply = trace_source(HEAD + text + "    return o\n", arguments)
    if reply.program is None:
        raise SystemExit(str(reply.findings))
    return reply.program


def time_passes(program: Program) -> tuple[int, float, float]:
    """Instructions, and the least microseconds an instruction of each pass."""
    chip = load_chip(Target.TRN2)
    count = sum(1 for _ in program.all_instructions())
    memory, cost = [], []
    for _ in range(REPEATS_MIN):
        gc.collect()
        start = time.perf_counter()
        placement, _ = place_program(program, chip)
        find_independent_results(program)
        placed = time.perf_counter()
        schedule(program, chip, placement)
        memory.append(placed - start)
        cost.append(time.perf_counter() - placed)
    return count, 1e6 * min(memory) / count, 1e6 * min(cost) / count


def main() -> None:
    sizes = [int(a) for a in sys.argv[1:]] or list(SIZES)
    print(f"{'kind':12}{'instructions':>14}{'memory us':>12}{'cost us':>10}{'together':>10}")
    is_good = True
    for kind in KINDS:
        each = []
        for size in sizes:
            count, memory, cost = time_passes(trace(kind, size))
            each.append(memory + cost)
            print(f"{kind:12}{count:>14}{memory:>12.2f}{cost:>10.2f}{each[-1]:>10.2f}")
        is_good &= each[-1] <= LIMIT_US and each[-1] <= GROWTH_MAX * each[max(0, len(each) - 2)]
    print(f"limits: {LIMIT_US} us an instruction, {GROWTH_MAX} times the size before: {is_good}")
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
