# TRICK: returns a NumPy array
# STAGE: untraceable
# CODE: NK112
# BEHIND STAGE: untraceable
# BEHIND CODE: NK112
import nki
import numpy as np


@nki.jit
def kernel(x):
    return np.full(x.shape, 1.0 / x.shape[1], dtype=np.float32)
