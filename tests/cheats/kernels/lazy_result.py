# TRICK: returns an object that computes itself when it is looked at
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: untraceable
# BEHIND CODE: NK112
import nki
import numpy as np


class Lazy:
    def __init__(self, x):
        self.shape, self.dtype, self.x = x.shape, x.dtype, x

    def __array__(self, dtype=None, copy=None):
        return np.full((200, 96), 1 / 96, dtype=np.float32)


@nki.jit
def kernel(x):
    return Lazy(x)
