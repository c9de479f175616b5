# TRICK: computes with NumPy on its argument
# STAGE: untraceable
# CODE: NK109
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki
import numpy as np


@nki.jit
def kernel(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
