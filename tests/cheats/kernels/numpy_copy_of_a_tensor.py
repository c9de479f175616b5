# TRICK: asks NumPy for the values of its argument
# STAGE: untraceable
# CODE: NK110
# BEHIND STAGE: untraceable
# BEHIND CODE: NK110
import nki
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    values = np.asarray(x)
    return nl.shared_constant(values / values.sum())
