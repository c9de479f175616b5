# TRICK: none: computes both outputs
# STAGE: right
# CODE: -
# BEHIND STAGE: right
# BEHIND CODE: -
# TASK: pair
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    one = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    two = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(one, nl.maximum(nl.load(x), 0.0))
    nl.store(two, nl.minimum(nl.load(x), 0.0))
    return one, two
