# TRICK: allocates and touches 60 GB in HBM
# STAGE: unfit
# CODE: NK114
# BEHIND STAGE: unfit
# BEHIND CODE: NK114
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    scratch = nl.ndarray((15, 1024, 1024, 1024), dtype=nl.float32, buffer=nl.hbm)
    nisa.dma_copy(dst=scratch[0, 0, 0:200, 0:96], src=x)
    nisa.dma_copy(dst=out, src=scratch[0, 0, 0:200, 0:96])
    return out
