# TRICK: none: reads its indices
# STAGE: right
# CODE: -
# BEHIND STAGE: right
# BEHIND CODE: -
# TASK: rows
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(i, table):
    out = nl.ndarray((64, 40), dtype=table.dtype, buffer=nl.shared_hbm)
    places = nl.load(i)
    tile = nl.ndarray((64, 40), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=table.ap([[40, 64], [1, 40]], vector_offset=places))
    nl.store(out, tile)
    return out
