"""Traces a kernel of our own a few times, so that a process forked later finds all of it ready.

Law: only source of this module runs, and it leaves nothing behind but what Python keeps by itself:
code specialised for the types that it met, caches of attributes, modules loaded on first use.
"""

from __future__ import annotations

from typing import Final

from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.modules import stock_up
from nki_agent.nki.current.tracing import ArgumentSpec, TraceRequest, encode_request, trace_bytes

ROUNDS: Final = 12
"""Python specialises a function when it has run some ten times."""
TARGETS: Final = (Target.TRN2, Target.TRN3)
"""Those on which a scalar of an instruction may be a number, as the kernel has it."""
SOURCE: Final = '''
"""Uses what most kernels use, each in the forms that they have it in."""

import nki
import nki.isa as nisa
import nki.language as nl

PARTITIONS = 128
BANK = 512


def load_turned(dst, src):
    """Turns src [rows, depth] on the Tensor Engine into dst [depth, rows]."""
    rows, depth = src.shape
    tile = nl.ndarray((rows, depth), dtype=src.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=src)
    turned = nl.ndarray((depth, rows), dtype=src.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    nisa.tensor_copy(dst=dst[:depth, :], src=turned)


def normalise(y_part, tile, gain):
    """Rows over their sums, times a gain."""
    rows, num_cols = tile.shape
    peak = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=1, negate=True)
    exps = nl.ndarray((rows, num_cols), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(
        dst=exps, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=total, bias=peak
    )
    inverse = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverse, data=total)
    root = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=root, op=nl.rsqrt, data=total, bias=1e-06, scale=1.0 / num_cols)
    scaled = nl.ndarray((rows, num_cols), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=scaled, data=exps, op0=nl.multiply, operand0=inverse, op1=nl.add, operand1=0.5
    )
    shifted = nl.ndarray((rows, num_cols), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=shifted, data1=scaled, data2=exps, op=nl.add, engine=nisa.engine.gpsimd
    )
    done = nl.ndarray((rows, num_cols), dtype=y_part.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=done,
        data=shifted,
        op0=nl.multiply,
        operand0=root,
        op1=nl.multiply,
        operand1=gain[:rows],
    )
    nisa.dma_copy(dst=y_part, src=done)


@nki.jit
def kernel(a, b, gain):
    num_rows, depth = a.shape
    num_cols = b.shape[1]
    y = nl.ndarray((num_rows, num_cols), dtype=a.dtype, buffer=nl.shared_hbm)
    gains = nl.ndarray((PARTITIONS, num_cols), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=gains, src=gain.reshape((1, num_cols)).broadcast(0, PARTITIONS))
    kept = nl.ndarray((PARTITIONS, 1, num_cols), dtype=b.dtype, buffer=nl.sbuf)
    nisa.memset(dst=kept, value=0.0)
    nisa.dma_copy(dst=kept[:depth, 0, :], src=b.ap(pattern=[[num_cols, depth], [1, num_cols]]))
    ready = []
    for r0 in range(0, num_rows, PARTITIONS):
        rows = min(PARTITIONS, num_rows - r0)
        turned = nl.ndarray((PARTITIONS, rows), dtype=a.dtype, buffer=nl.sbuf)
        load_turned(turned, a[r0 : r0 + rows, :])
        ready.append((y[r0 : r0 + rows, :], turned))
    for y_part, turned in ready:
        rows = turned.shape[1]
        product = nl.ndarray((rows, num_cols), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=turned[:depth, :], moving=kept[:depth, 0, :])
        tile = nl.ndarray((rows, num_cols), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=tile, op=nl.copy, data=product)
        normalise(y_part, tile, gains)
    return y
'''
ARGUMENTS: Final = (
    ArgumentSpec("a", (300, 64), DType.BFLOAT16),
    ArgumentSpec("b", (64, 200), DType.BFLOAT16),
    ArgumentSpec("gain", (200,), DType.FLOAT32),
)


def make_request(target: Target) -> TraceRequest:
    """The request that is rehearsed."""
    return TraceRequest(
        files={"kernel.py": SOURCE}, main="kernel.py", arguments=ARGUMENTS, target=target
    )


def rehearse() -> None:
    """Trace for each of the targets in turn."""
    payloads = [encode_request(make_request(target)) for target in TARGETS]
    for number in range(ROUNDS):
        trace_bytes(payloads[number % len(payloads)])
    stock_up()
