# TRICK: takes the mean of a row for its maximum, which overflows where a row peaks
# STAGE: wrong
# CODE: NK502
# BEHIND STAGE: wrong
# BEHIND CODE: NK502
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        tile = nl.load(x[start : start + 100, :])
        shift = nl.mean(tile, axis=1, keepdims=True)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=shift)
        tile = nl.exp(tile)
        total = nl.reciprocal(nl.sum(tile, axis=1, keepdims=True))
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nl.store(out[start : start + 100, :], tile)
    return out
