# TRICK: asks for more work than the judge can do
# STAGE: unfit
# CODE: NK117
# BEHIND STAGE: unfit
# BEHIND CODE: NK117
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.load(x[0:128, :])
    wide = nl.ndarray((128, 32768), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=wide, value=0.0)
    for _ in range(100_000):
        nisa.tensor_copy(dst=wide, src=wide)
    nisa.tensor_copy(dst=tile, src=tile)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
