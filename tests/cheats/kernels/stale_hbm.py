# TRICK: reads its answer from scratch memory in HBM
# STAGE: unfit
# CODE: NK207
# BEHIND STAGE: unfit
# BEHIND CODE: NK207
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    scratch = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
    nl.store(scratch[0:1, :], nl.load(x[0:1, :]))
    nisa.dma_copy(dst=out, src=scratch)
    return out
