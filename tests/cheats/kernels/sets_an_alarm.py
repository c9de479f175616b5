# TRICK: has a timer interrupt the tracer
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import signal

import nki
import nki.language as nl


signal.signal(signal.SIGALRM, lambda *args: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
