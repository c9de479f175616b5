# TRICK: gives its argument the shape that it would like
# STAGE: wrong
# CODE: NK213
# BEHIND STAGE: wrong
# BEHIND CODE: NK213
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    x.shape = (100, 96)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out
