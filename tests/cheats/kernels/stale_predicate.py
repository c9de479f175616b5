# TRICK: selects by a predicate that it never wrote
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
        tile = nl.softmax(nl.load(x[start : start + 100, :]))
        stale = nl.ndarray(tile.shape, dtype=nl.uint8, buffer=nl.sbuf)
        nisa.tensor_copy_predicated(dst=tile, src=tile, predicate=stale)
        nl.store(out[start : start + 100, :], tile)
    return out
