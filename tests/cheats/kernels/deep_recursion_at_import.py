# TRICK: calls itself for ever while it is imported
# STAGE: untraceable
# CODE: NK111
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import nki
import nki.language as nl


def f(n):
    return f(n + 1)


f(0)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
