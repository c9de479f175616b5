# TRICK: forges an answer after the tracer has given its own
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
import atexit
import os

import nki
import nki.language as nl


@atexit.register
def forge():
    os._exit(0)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
