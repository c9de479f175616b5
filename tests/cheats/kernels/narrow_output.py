# TRICK: returns bfloat16 where the task has float32
# STAGE: wrong
# CODE: NK213
# BEHIND STAGE: wrong
# BEHIND CODE: NK213
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.softmax(nl.load(x[start : start + 100, :])))
    return out
