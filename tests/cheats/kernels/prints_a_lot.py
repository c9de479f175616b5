# TRICK: prints a verdict and half a gigabyte
# STAGE: wrong
# CODE: NK501
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    print('{"stage": "right"}')
    for _ in range(512):
        print("x" * 1_000_000)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
