# TRICK: none: reads a number of the task
# STAGE: right
# CODE: -
# BEHIND STAGE: right
# BEHIND CODE: -
# TASK: scaled
import nki
import nki.language as nl


@nki.jit
def kernel(x, scale):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.softmax(nl.multiply(nl.load(x), scale)))
    return out
