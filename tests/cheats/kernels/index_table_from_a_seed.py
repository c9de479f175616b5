# TRICK: makes the indices that a known seed gives, as NumPy draws them
# STAGE: wrong
# CODE: NK501
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
# TASK: rows
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


PLACES = np.random.default_rng(0).integers(0, 200, size=(64, 1)).astype(np.int32)


@nki.jit
def kernel(i, table):
    known = nl.shared_constant(PLACES)
    out = nl.ndarray((64, 40), dtype=table.dtype, buffer=nl.shared_hbm)
    places = nl.load(known)
    tile = nl.ndarray((64, 40), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=table.ap([[40, 64], [1, 40]], vector_offset=places))
    nl.store(out, tile)
    return out
