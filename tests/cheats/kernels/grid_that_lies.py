# TRICK: states its launch by an object that equals everything
# STAGE: untraceable
# CODE: NK116
# BEHIND STAGE: untraceable
# BEHIND CODE: NK116
import nki
import nki.language as nl


class Grid(tuple):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


grid = Grid((1 << 40, 1 << 40))


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 100):
        nl.store(out[start : start + 100, :], nl.load(x[start : start + 100, :]))
    return out
