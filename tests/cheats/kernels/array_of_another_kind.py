# TRICK: makes a constant of a subclass of array that lies
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: cheat
# BEHIND CODE: NK902
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


class Array(np.ndarray):
    @property
    def shape(self):
        return (200, 96)

    def tobytes(self, order="C"):
        return b"right"


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.shared_constant(np.zeros((1, 1), np.float32).view(Array)))
    nl.store(out[0:100, :], nl.load(x[0:100, :]))
    return out
