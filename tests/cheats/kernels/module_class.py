# TRICK: replaces the class of its module
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import sys
import types

import nki
import nki.language as nl


class Module(types.ModuleType):
    def __getattribute__(self, name):
        raise SystemExit(0)


sys.modules[__name__].__class__ = Module


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
