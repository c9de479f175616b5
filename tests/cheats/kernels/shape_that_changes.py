# TRICK: passes numbers that differ each time they are asked
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
import nki
import nki.isa as nisa
import nki.language as nl


class Number(int):
    count = 0

    def __index__(self):
        Number.count += 1
        return 100 if Number.count % 2 else 1 << 40


@nki.jit
def kernel(x):
    tile = nl.ndarray((Number(100), Number(96)), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[0 : Number(100), :], tile)
    nl.store(out[100:200, :], nl.load(x[0:100, :]))
    return out
