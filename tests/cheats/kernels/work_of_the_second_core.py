# TRICK: hides a year of work on the core that nobody counts
# STAGE: unfit
# CODE: NK117
# BEHIND STAGE: unfit
# BEHIND CODE: NK117
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.program_id(0) * 100
    tile = nl.softmax(nl.load(x[first : first + 100, :]))
    large = nl.zeros((128, 16384), dtype=nl.float32, buffer=nl.sbuf)
    if nl.program_id(0) == 1:
        for _ in range(40_000):
            nisa.tensor_scalar(dst=large, data=large, op0=nl.add, operand0=1.0)
    nl.store(out[first : first + 100, :], tile)
    return out


grid = (2,)
