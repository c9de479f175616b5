"""What the simulator costs: compiling and running, beside the same NumPy calls written by hand.

Run: `python benchmarks/sim_instructions.py`. Times are the best of several, in microseconds for
each instruction; `ratio` is the run's time over that of the plain NumPy calls on the same tiles,
`in order` over that of NumPy calls that also add in the order of the engines, first to last, where
plain NumPy adds pairwise. "small" cases have one NumPy call an instruction on new tiles each round,
"slices" has a new view in every instruction.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.sim.execute import compile_program
from nki_agent.sim.threads import use_one_thread

REPEATS = 9
HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel({arguments}):
"""
SMALL = """
    o = nl.ndarray(x.shape, dtype=nl.{dtype}, buffer=nl.shared_hbm)
    for i in range({rounds}):
        rows = slice(i * {p}, (i + 1) * {p})
        t = nl.ndarray(({p}, {f}), dtype=nl.{dtype}, buffer=nl.sbuf)
        a = nl.ndarray(({p}, {f}), dtype=nl.{dtype}, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[rows, :])
        nisa.tensor_scalar(dst=a, data=t, op0=nl.multiply, operand0=2.0)
        nisa.tensor_tensor(dst=a, data1=a, data2=t, op=nl.add)
        nisa.activation(dst=a, op=nl.exp, data=a)
        nisa.tensor_tensor(dst=a, data1=a, data2=t, op=nl.add)
        nisa.tensor_scalar(dst=a, data=a, op0=nl.multiply, operand0=0.01)
        nisa.tensor_tensor(dst=a, data1=a, data2=t, op=nl.subtract)
        nisa.dma_copy(dst=o[rows, :], src=a)
    return o
"""
SLICES = """
    o = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray((16, {n} * 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=t, value=1.0)
    for i in range({n}):
        part = t[:, i * 16 : (i + 1) * 16]
        nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=o, src=t[:, 0:16])
    return o
"""
SOFTMAX = """
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(8):
        rows = slice(i * 128, (i + 1) * 128)
        t = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
        e = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
        m = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        s = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[rows, :])
        nisa.tensor_reduce(dst=m, op=nl.maximum, data=t, axis=1, negate=True)
        nisa.activation(dst=e, op=nl.exp, data=t, bias=m, reduce_op=nl.add, reduce_res=s,
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.reciprocal(dst=s, data=s)
        nisa.tensor_scalar(dst=e, data=e, op0=nl.multiply, operand0=s)
        nisa.dma_copy(dst=o[rows, :], src=e)
    return o
"""
RMSNORM = """
    o = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(8):
        rows = slice(i * 128, (i + 1) * 128)
        t = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
        q = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
        s = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[rows, :])
        nisa.activation(dst=q, op=nl.square, data=t, reduce_op=nl.add, reduce_res=s,
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.tensor_scalar(dst=s, data=s, op0=nl.multiply, operand0=1.0 / 2048, op1=nl.add,
                           operand1=1e-6)
        nisa.activation(dst=s, op=nl.rsqrt, data=s)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=s)
        nisa.dma_copy(dst=o[rows, :], src=t)
    return o
"""
MATMUL = """
    o = nl.ndarray((512, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(4):
        for j in range(2):
            p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(4):
                rows = slice(k * 128, (k + 1) * 128)
                a = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
                b = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=a, src=x[rows, i * 128 : (i + 1) * 128])
                nisa.dma_copy(dst=b, src=x[rows, 512 + j * 512 : 1024 + j * 512])
                nisa.nc_matmul(dst=p, stationary=a, moving=b)
            r = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=r, src=p)
            nisa.dma_copy(dst=o[i * 128 : (i + 1) * 128, j * 512 : (j + 1) * 512], src=r)
    return o
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kernel of one argument `x`, and the plain NumPy calls that it comes down to."""

    name: str
    body: str
    shape: tuple[int, int]
    dtype: DType
    plain: Callable[[np.ndarray], None]
    in_order: Callable[[np.ndarray], None] | None = None
    """The same calls with sums from first to last, where `plain` has none."""


def sum_pairwise(tile: np.ndarray) -> np.ndarray:
    total: np.ndarray = tile.sum(axis=1, keepdims=True)
    return total


def sum_in_order(tile: np.ndarray) -> np.ndarray:
    """NumPy adds one row after the other where it reduces the first axis."""
    total: np.ndarray = np.add.reduce(np.ascontiguousarray(tile.T), axis=0)
    return total[:, None]


def plain_small(partitions: int, free: int) -> Callable[[np.ndarray], None]:
    def run(x: np.ndarray) -> None:
        out = np.empty_like(x)
        t, a = np.empty((2, partitions, free), np.float32)
        two, little = np.array(2.0, np.float32), np.array(0.01, np.float32)
        for start in range(0, len(x), partitions):
            t[...] = x[start : start + partitions]
            np.multiply(t, two, a)
            np.add(a, t, a)
            np.exp(a, a)
            np.add(a, t, a)
            np.multiply(a, little, a)
            np.subtract(a, t, a)
            out[start : start + partitions] = a

    return run


def plain_slices(count: int) -> Callable[[np.ndarray], None]:
    def run(_: np.ndarray) -> None:
        tile = np.ones((16, count * 16), np.float32)
        two = np.array(2.0, np.float32)
        for i in range(count):
            part = tile[:, i * 16 : (i + 1) * 16]
            np.multiply(part, two, part)

    return run


def plain_softmax(
    add: Callable[[np.ndarray], np.ndarray],
) -> Callable[[np.ndarray], None]:
    def run(x: np.ndarray) -> None:
        out = np.empty_like(x)
        t = np.empty((128, 1024), np.float32)
        for start in range(0, len(x), 128):
            t[...] = x[start : start + 128]
            np.subtract(t, t.max(1, keepdims=True), t)
            np.exp(t, t)
            np.multiply(t, 1.0 / add(t), t)
            out[start : start + 128] = t

    return run


def plain_rmsnorm(
    add: Callable[[np.ndarray], np.ndarray],
) -> Callable[[np.ndarray], None]:
    def run(x: np.ndarray) -> None:
        out = np.empty_like(x)
        t, q = np.empty((2, 128, 2048), np.float32)
        little = np.float32(1e-6)
        for start in range(0, len(x), 128):
            t[...] = x[start : start + 128]
            np.multiply(t, t, q)
            mean = add(q) * np.float32(1 / 2048) + little
            np.multiply(t, 1.0 / np.sqrt(mean), t)
            out[start : start + 128] = t

    return run


def plain_matmul(x: np.ndarray) -> None:
    out = np.empty((512, 1024), np.float32)
    product, total = np.empty((2, 128, 512), np.float32)
    for i in range(4):
        for j in range(2):
            for k in range(4):
                rows = slice(k * 128, (k + 1) * 128)
                a = x[rows, i * 128 : (i + 1) * 128].copy()
                b = x[rows, 512 + j * 512 : 1024 + j * 512].copy()
                np.matmul(a.T, b, product if k else total)
                if k:
                    np.add(total, product, total)
            out[i * 128 : (i + 1) * 128, j * 512 : (j + 1) * 512] = total.copy()


def make_cases() -> list[Case]:
    def small(name: str, partitions: int, free: int, rounds: int, dtype: DType) -> Case:
        return Case(
            name=name,
            body=SMALL.format(p=partitions, f=free, rounds=rounds, dtype=dtype.value),
            shape=(partitions * rounds, free),
            dtype=dtype,
            plain=plain_small(partitions, free),
        )

    fp32 = DType.FLOAT32
    return [
        small("small [16,16] fp32", 16, 16, 5000, fp32),
        small("small [128,64] fp32", 128, 64, 1250, fp32),
        small("small [128,64] bf16", 128, 64, 1250, DType.BFLOAT16),
        small("tile [128,512] fp32", 128, 512, 100, fp32),
        small("tile [128,512] bf16", 128, 512, 100, DType.BFLOAT16),
        Case(
            name="slices [16,16] fp32",
            body=SLICES.format(n=40000),
            shape=(16, 16),
            dtype=fp32,
            plain=plain_slices(40000),
        ),
        Case(
            name="softmax 1024x1024",
            body=SOFTMAX,
            shape=(1024, 1024),
            dtype=fp32,
            plain=plain_softmax(sum_pairwise),
            in_order=plain_softmax(sum_in_order),
        ),
        Case(
            name="rmsnorm 1024x2048",
            body=RMSNORM,
            shape=(1024, 2048),
            dtype=fp32,
            plain=plain_rmsnorm(sum_pairwise),
            in_order=plain_rmsnorm(sum_in_order),
        ),
        Case(
            name="matmul 512x512x1024",
            body=MATMUL,
            shape=(512, 1536),
            dtype=fp32,
            plain=plain_matmul,
            in_order=plain_matmul,
        ),
    ]


def best_seconds(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(case: Case) -> str:
    source = HEAD.format(arguments="x") + case.body
    specs = [ArgumentSpec("x", case.shape, case.dtype)]
    trace = best_seconds(lambda: trace_source(source, specs), 3)
    reply = trace_source(source, specs)
    assert reply.program is not None, reply.findings
    program, chip = reply.program, load_chip(Target.TRN2)
    count = len(program.bodies[0])
    compiling = best_seconds(lambda: compile_program(program, chip), 3)
    executable = compile_program(program, chip)
    values = rng_for(0, case.name).random(case.shape, np.float32)
    arrays = {"x": values.astype(case.dtype.numpy_dtype)}
    run = best_seconds(lambda: executable.run(arrays, with_checks=False), REPEATS)
    plain = best_seconds(lambda: case.plain(values), REPEATS)
    ordered = "       -"
    if (in_order := case.in_order) is not None:
        ordered = f"{run / best_seconds(lambda: in_order(values), REPEATS):8.2f}"
    each = [1e6 * seconds / count for seconds in (trace, compiling, run, plain)]
    figures = " ".join(f"{figure:9.2f}" for figure in each)
    ratio = f"{run / plain:7.2f} {ordered}"
    return f"{case.name:22s} {count:8d} {figures} {ratio} {1e3 * trace:8.2f} {1e3 * run:8.2f}"


def main() -> None:
    use_one_thread()
    sys.stdout.write(
        f"{'case':22s} {'count':>8s} {'trace':>9s} {'compile':>9s} {'run':>9s} {'plain':>9s}"
        f" {'ratio':>7s} {'in order':>8s} {'trace ms':>8s} {'run ms':>8s}\n"
    )
    for case in make_cases():
        sys.stdout.write(measure(case) + "\n")


if __name__ == "__main__":
    main()
