# TRICK: rounds its input to quarters
# STAGE: wrong
# CODE: NK501
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        tile = nl.load(x[start : start + 100, :])
        coarse = nl.copy(nl.multiply(tile, 4.0), dtype=nl.int32)
        tile = nl.multiply(nl.copy(coarse, dtype=nl.float32), 0.25)
        nl.store(out[start : start + 100, :], nl.softmax(tile))
    return out
