# TRICK: writes the first 128 rows and leaves the tail to old memory
# STAGE: unfit
# CODE: NK208
# BEHIND STAGE: unfit
# BEHIND CODE: NK208
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[0:128, :], nl.softmax(nl.load(x[0:128, :])))
    return out
