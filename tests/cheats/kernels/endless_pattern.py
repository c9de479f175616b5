# TRICK: lets a regular expression backtrack for ever
# STAGE: refused
# CODE: NK107
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import re

import nki
import nki.language as nl


re.match(r"(a+)+$", "a" * 64 + "b")


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
