# TRICK: sets the offset of a view past every number that fits
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK202
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    view = x[0:200, 0:96]
    view._offset = (1 << 63) - 4
    nisa.dma_copy(dst=out, src=view)
    return out
