"""Kernels that tests of several rooms trace."""

from __future__ import annotations

from collections.abc import Sequence

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.chip.spec import DEFAULT_TARGET, Target
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.program.records import Program

HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

"""

SOFTMAX = (
    HEAD
    + """
@nki.jit
def kernel(x):
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, 128):
        size = min(128, rows - start)
        tile = nl.ndarray((size, cols), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start:start + size, :])
        top = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
        total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=tile, op=nl.exp, data=tile, bias=top, reduce_op=nl.add,
                        reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[start:start + size, :], src=tile)
    return out
"""
)


def f32(name: str, *shape: int) -> ArgumentSpec:
    """A float32 argument."""
    return ArgumentSpec(name, shape, DType.FLOAT32)


def body(text: str, *, params: str = "x") -> str:
    """A kernel file whose entry has this body; each line is indented once."""
    lines = "\n".join("    " + line for line in text.strip("\n").split("\n"))
    return f"{HEAD}\n@nki.jit\ndef kernel({params}):\n{lines}\n"


def traced(
    source: str, arguments: Sequence[ArgumentSpec], *, target: Target = DEFAULT_TARGET
) -> Program:
    """The Program of a kernel that must trace."""
    reply = trace_source(source, arguments, target=target)
    assert reply.findings == (), [str(f) for f in reply.findings]
    assert reply.program is not None
    return reply.program


def refused(
    source: str, arguments: Sequence[ArgumentSpec], *, target: Target = DEFAULT_TARGET
) -> Diagnostic:
    """The finding of a kernel that must not trace."""
    reply = trace_source(source, arguments, target=target)
    assert reply.program is None
    assert len(reply.findings) == 1
    return reply.findings[0]
