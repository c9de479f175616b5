# TRICK: overflows the stack of the interpreter
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import sys

import nki
import nki.language as nl


sys.setrecursionlimit(1 << 30)


def key(x):
    return sorted([x], key=key)


key(0)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
