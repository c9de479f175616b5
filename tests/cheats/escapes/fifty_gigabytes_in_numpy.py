# ESCAPE: 50 GB in NumPy
# END: memory
# SAYS: bytes of memory
import numpy as np


def run():
    np.ones(50 << 27)
