# TRICK: writes one element eight thousand million times
# STAGE: unfit
# CODE: NK117
# BEHIND STAGE: unfit
# BEHIND CODE: NK117
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    one = nl.ndarray((1, 1), dtype=nl.bfloat16, buffer=nl.hbm)
    count = 1 << 33
    nisa.dma_copy(dst=one.broadcast(1, count), src=x[0:1, 0:1].broadcast(1, count))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
