# TRICK: says that its SBUF tile lies in HBM
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK112
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.load(x[0:100, :])
    tile._storage.memory = nl.shared_hbm.memory
    return tile
