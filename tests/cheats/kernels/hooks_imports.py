# TRICK: takes over every later import
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
import sys

import nki
import nki.language as nl


class Finder:
    def find_spec(self, name, path=None, target=None):
        raise SystemExit(0)


sys.meta_path.insert(0, Finder())
sys.path_hooks.clear()
sys.modules.pop("json", None)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
