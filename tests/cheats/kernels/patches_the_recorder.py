# TRICK: empties the recorder after an honest computation
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: cheat
# BEHIND CODE: NK902
from nki_agent.nki.current.recorder import STATE

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    STATE.recorder.body.clear()
    return out
