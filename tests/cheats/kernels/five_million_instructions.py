# TRICK: records five million instructions
# STAGE: untraceable
# CODE: NK111
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    for _ in range(5_000_000):
        nisa.memset(dst=tile, value=0.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
