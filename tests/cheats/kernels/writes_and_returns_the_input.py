# TRICK: computes in place in its argument and returns it
# STAGE: untraceable
# CODE: NK112
# BEHIND STAGE: untraceable
# BEHIND CODE: NK112
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    for start in range(0, x.shape[0], 100):
        nl.store(x[start : start + 100, :], nl.softmax(nl.load(x[start : start + 100, :])))
    return x
