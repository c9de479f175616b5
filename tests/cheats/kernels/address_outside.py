# TRICK: places a tensor before the first byte of SBUF
# STAGE: unfit
# CODE: NK215
# BEHIND STAGE: unfit
# BEHIND CODE: NK215
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf, address=(0, -4))
    nisa.memset(dst=tile, value=0.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
