# TRICK: branches on a value of its argument
# STAGE: untraceable
# CODE: NK110
# BEHIND STAGE: untraceable
# BEHIND CODE: NK110
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    if float(x[0, 0]) > 0:
        return x
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
