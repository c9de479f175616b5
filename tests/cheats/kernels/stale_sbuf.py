# TRICK: stores an SBUF tile that it never wrote
# STAGE: unfit
# CODE: NK207
# BEHIND STAGE: unfit
# BEHIND CODE: NK207
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        stale = nl.ndarray((100, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        kept = nl.softmax(nl.load(x[start : start + 100, :]))
        nisa.tensor_tensor(dst=kept, data1=kept, data2=stale, op=nl.maximum)
        nl.store(out[start : start + 100, :], kept)
    return out
