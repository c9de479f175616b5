# TRICK: none: reads its weight
# STAGE: right
# CODE: -
# BEHIND STAGE: right
# BEHIND CODE: -
# TASK: projection
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, weight):
    turned = nl.ndarray((x.shape[1], x.shape[0]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=nl.load(x))
    stationary = nl.ndarray(turned.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=stationary, src=turned)
    product = nl.ndarray((x.shape[0], weight.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product, stationary, nl.load(weight))
    tile = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=product)
    out = nl.ndarray(product.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
