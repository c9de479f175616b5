# TRICK: leaves a thread behind that goes on when the kernel is done
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import threading
import time

import nki
import nki.language as nl


threading.Thread(target=time.sleep, args=(60,)).start()


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
