# TRICK: multiplies its instructions behind the tracer's back
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
from sys import modules

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    modules["nki_agent.nki.current.recorder"].STATE.recorder.body *= 5_000_000
    return out
