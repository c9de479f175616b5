# TRICK: computes in place in its argument and returns a copy
# STAGE: unfit
# CODE: NK212
# BEHIND STAGE: unfit
# BEHIND CODE: NK212
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    for start in range(0, x.shape[0], 100):
        nl.store(x[start : start + 100, :], nl.softmax(nl.load(x[start : start + 100, :])))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
