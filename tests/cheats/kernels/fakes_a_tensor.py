# TRICK: returns a tensor that was never allocated
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: cheat
# BEHIND CODE: NK902
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    fake = object.__new__(type(x))
    for name in ("_form", "_kind", "_offset", "_start", "_storage", "_strides", "dtype", "shape"):
        setattr(fake, name, getattr(x, name))
    fake._tensor = 4096
    fake._storage.memory = nl.shared_hbm.memory
    return fake
