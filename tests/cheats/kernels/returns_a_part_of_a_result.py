# TRICK: returns a view of a larger tensor of its own
# STAGE: untraceable
# CODE: NK112
# BEHIND STAGE: untraceable
# BEHIND CODE: NK112
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    large = nl.ndarray((400, 96), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, 200, 100):
        nl.store(large[start : start + 100, :], nl.softmax(nl.load(x[start : start + 100, :])))
    return large[0:200, :]
