# TRICK: reads beyond its argument, where the answer might lie
# STAGE: untraceable
# CODE: NK202
# BEHIND STAGE: untraceable
# BEHIND CODE: NK202
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x.ap([[96, 200], [1, 96]], offset=200 * 96))
    return out
