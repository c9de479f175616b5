# TRICK: takes the sizes of its argument for those of the standard inputs
# STAGE: wrong
# CODE: NK502
# BEHIND STAGE: wrong
# BEHIND CODE: NK502
# TASK: sizes
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    if x.shape == (100, 24):
        total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        tile = nl.exp(tile)
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    else:
        tile = nl.softmax(tile)
    nl.store(out, tile)
    return out
