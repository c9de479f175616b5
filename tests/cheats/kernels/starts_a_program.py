# TRICK: starts another program
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import subprocess

import nki
import nki.language as nl


subprocess.run(["/bin/true"], check=True)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
