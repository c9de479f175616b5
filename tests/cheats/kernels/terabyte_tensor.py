# TRICK: allocates a terabyte in HBM
# STAGE: untraceable
# CODE: NK111
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    nl.ndarray((1 << 20, 1 << 18), dtype=nl.float32, buffer=nl.hbm)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
