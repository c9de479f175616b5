# TRICK: places more tensors by hand than can be compared
# STAGE: unfit
# CODE: NK114
# BEHIND STAGE: unfit
# BEHIND CODE: NK114
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    tiles = []
    for byte in range(8192):
        tile = nl.ndarray((1, 1), dtype=nl.uint8, buffer=nl.sbuf, address=(0, byte))
        nisa.memset(dst=tile, value=0)
        tiles.append(tile)
    for tile in tiles:
        nisa.tensor_copy(dst=tile, src=tile)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
