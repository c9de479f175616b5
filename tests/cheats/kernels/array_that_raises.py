# TRICK: hands an object to NumPy that ends the process
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki
import nki.language as nl
import numpy as np


class Array:
    shape, dtype, ndim = (200, 96), np.dtype(np.float32), 2

    def __array__(self, dtype=None, copy=None):
        raise SystemExit(0)


@nki.jit
def kernel(x):
    return nl.shared_constant(np.asarray(Array()))
