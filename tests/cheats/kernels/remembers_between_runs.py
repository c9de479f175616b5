# TRICK: leaves its answer in the process for the next kernel
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
import nki
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    if hasattr(np, "_answer"):
        return np._answer
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    np._answer = out
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
