# TRICK: none: reads its gain and its bias
# STAGE: right
# CODE: -
# BEHIND STAGE: right
# BEHIND CODE: -
# TASK: gain
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, gain, bias):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = []
    for row in (gain, bias):
        tile = nl.ndarray((x.shape[0], x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=row.ap([[0, x.shape[0]], [1, x.shape[1]]]))
        rows.append(tile)
    normed = nl.rms_norm(nl.load(x), rows[0], 1, x.shape[1])
    nl.store(out, nl.add(normed, rows[1]))
    return out
