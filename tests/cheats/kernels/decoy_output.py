# TRICK: computes the right answer into one tensor and returns another
# STAGE: wrong
# CODE: NK501
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    right = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        tile = nl.load(x[start : start + 100, :])
        nl.store(right[start : start + 100, :], nl.softmax(tile))
        nl.store(out[start : start + 100, :], tile)
    return out
