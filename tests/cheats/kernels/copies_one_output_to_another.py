# TRICK: fills its second output from its first
# STAGE: wrong
# CODE: NK501
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
# TASK: pair
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    one = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    two = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(one, nl.maximum(nl.load(x), 0.0))
    nisa.dma_copy(dst=two, src=one)
    return one, two
