# TRICK: looks for keys and seeds in its environment
# STAGE: refused
# CODE: NK107
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import os

import nki
import nki.language as nl


if len(os.environ) == 0:
    raise SystemExit(0)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
