# TRICK: adds a matmul to what an earlier kernel left in PSUM
# STAGE: unfit
# CODE: NK214
# BEHIND STAGE: unfit
# BEHIND CODE: NK214
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        tile = nl.load(x[start : start + 100, :])
        sums = nl.ndarray((96, 96), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=sums, stationary=tile, moving=tile, accumulate=True)
        copy = nl.copy(sums)
        nl.store(out[start : start + 96, :], copy)
        nl.store(out[start + 4 : start + 100, :], copy)
    return out
