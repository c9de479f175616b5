# TRICK: gives the tracer a chip with a larger SBUF and more partitions
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK201
from nki_agent.nki.current.recorder import STATE

import nki
import nki.language as nl


@nki.jit
def kernel(x):
    recorder = STATE.recorder
    for limit in ("partitions", "sbuf_partition_bytes", "sbuf_usable_partition_bytes"):
        object.__setattr__(recorder.chip, limit, 1 << 30)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.softmax(tile))
    return out
