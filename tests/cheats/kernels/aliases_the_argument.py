# TRICK: lets its result name the argument's memory
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: cheat
# BEHIND CODE: NK902
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out._tensor = x._tensor
    return out
