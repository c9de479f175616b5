"""Small kernels as Programs, for tests of the cost model."""

from collections.abc import Mapping

from nki_agent.chip.spec import ChipSpec, Target, load_chip
from nki_agent.cost.timeline import Timeline, schedule
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.program.records import Program
from nki_agent.program.validate import check_program

HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl

def sbuf(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)

def psum(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)

def hbm(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)

@nki.jit
def kernel"""

Shapes = Mapping[str, tuple[int, ...]]


def trace(
    source: str,
    shapes: Shapes,
    *,
    dtype: DType = DType.FLOAT32,
    target: Target = Target.TRN2,
    cores: int = 1,
) -> Program:
    """The Program of a kernel given as `(arguments): body`; it must be a valid one."""
    arguments = [ArgumentSpec(name, shape, dtype) for name, shape in shapes.items()]
    grid = f"\ngrid = ({cores},)\n" if cores > 1 else ""
    reply = trace_source(HEAD + source + grid, arguments, target=target)
    assert reply.program is not None, reply.findings
    assert check_program(reply.program, load_chip(target)) == []
    return reply.program


def run(
    source: str,
    shapes: Shapes,
    *,
    dtype: DType = DType.FLOAT32,
    target: Target = Target.TRN2,
) -> Timeline:
    """The Timeline of a kernel."""
    return schedule(trace(source, shapes, dtype=dtype, target=target), load_chip(target))


def trn1() -> ChipSpec:
    return load_chip(Target.TRN1)


def trn2() -> ChipSpec:
    return load_chip(Target.TRN2)


COPY = """(x):
    out = hbm(x.shape, x.dtype)
    n, f = x.shape
    for r in range(0, n, 128):
        for c in range(0, f, {columns}):
            tile = sbuf((128, {columns}), x.dtype)
            nisa.dma_copy(dst=tile, src=x[r : r + 128, c : c + {columns}])
            nisa.dma_copy(dst=out[r : r + 128, c : c + {columns}], src=tile)
    return out
"""

EXP = """(x):
    out = hbm(x.shape, x.dtype)
    n, f = x.shape
    for r in range(0, n, 128):
        tile = sbuf((128, f), x.dtype)
        nisa.dma_copy(dst=tile, src=x[r : r + 128, :])
        result = sbuf((128, f), x.dtype)
        nisa.activation(dst=result, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[r : r + 128, :], src=result)
    return out
"""

MATMUL = """(a, b):
    k, m = a.shape
    n = b.shape[1]
    out = hbm((m, n))
    right = sbuf((128, k // 128, n), b.dtype)
    for c in range(k // 128):
        nisa.dma_copy(dst=right[:, c, :], src=b[c * 128 : c * 128 + 128, :])
    for i in range(0, m, 128):
        left = sbuf((128, k // 128, 128), a.dtype)
        for c in range(k // 128):
            nisa.dma_copy(dst=left[:, c, :], src=a[c * 128 : c * 128 + 128, i : i + 128])
        for j in range(0, n, 512):
            total = psum((128, 512))
            for c in range(k // 128):
                nisa.nc_matmul(
                    dst=total, stationary=left[:, c, :], moving=right[:, c, j : j + 512]
                )
            tile = sbuf((128, 512))
            nisa.activation(dst=tile, op=nl.copy, data=total)
            nisa.dma_copy(dst=out[i : i + 128, j : j + 512], src=tile)
    return out
"""
