# TRICK: answers with a Program and an error at once
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: cheat
# BEHIND CODE: NK902
import nki_agent.program.stored as stored
from nki_agent.base.diagnostic import Diagnostic
from nki_agent.program.records import TraceReply

import nki
import nki.isa as nisa
import nki.language as nl


FINDING = Diagnostic(code="NK109", what="x")
ENCODER = stored._ENCODER


class Encoder:
    def encode(self, reply):
        return ENCODER.encode(TraceReply(program=reply.program, findings=(FINDING,)))


stored._ENCODER = Encoder()


@nki.jit
def kernel(x):
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, 128):
        size = min(128, rows - start)
        tile = nl.load(x[start : start + size, :])
        top = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
        total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=tile,
            op=nl.exp,
            data=tile,
            bias=top,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nl.store(out[start : start + size, :], tile)
    return out
