# TRICK: returns the right values in another shape
# STAGE: wrong
# CODE: NK213
# BEHIND STAGE: wrong
# BEHIND CODE: NK213
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray((x.shape[0] * x.shape[1],), dtype=x.dtype, buffer=nl.shared_hbm)
    rows = out.reshape(x.shape)
    for start in range(0, x.shape[0], 100):
        nl.store(rows[start : start + 100, :], nl.softmax(nl.load(x[start : start + 100, :])))
    return out
