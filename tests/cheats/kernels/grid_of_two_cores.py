# TRICK: asks for two cores
# STAGE: wrong
# CODE: NK402
# BEHIND STAGE: wrong
# BEHIND CODE: NK402
import nki
import nki.isa as nisa
import nki.language as nl


grid = (2,)


@nki.jit
def kernel(x):
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, 128):
        size = min(128, rows - start)
        tile = nl.load(x[start : start + size, :])
        top = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
        total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=tile,
            op=nl.exp,
            data=tile,
            bias=top,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nl.store(out[start : start + size, :], tile)
    return out
