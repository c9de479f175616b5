# TRICK: makes the weights that a known seed gives, as NumPy draws them
# STAGE: wrong
# CODE: NK501
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
# TASK: projection
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


WEIGHT = np.random.default_rng(0).standard_normal((96, 40)).astype(np.float32) / 96**0.5


@nki.jit
def kernel(x, weight):
    known = nl.shared_constant(WEIGHT)
    turned = nl.ndarray((x.shape[1], x.shape[0]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=nl.load(x))
    stationary = nl.ndarray(turned.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=stationary, src=turned)
    product = nl.ndarray((x.shape[0], weight.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product, stationary, nl.load(known))
    tile = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=product)
    out = nl.ndarray(product.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
