# TRICK: adds to what an earlier kernel left in the accumulator of the Scalar Engine
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
        total = nl.ndarray((100, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=tile,
            op=nl.exp,
            data=tile,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reduce,
        )
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nl.store(out[start : start + 100, :], tile)
    return out
