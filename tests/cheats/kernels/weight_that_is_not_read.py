# TRICK: trusts that a gain is one and a bias zero, as in a new module
# STAGE: wrong
# CODE: NK501
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
# TASK: gain
import nki
import nki.language as nl


@nki.jit
def kernel(x, gain, bias):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.rms_norm(nl.load(x), nl.ones((100, 40), dtype=nl.float32), 1, x.shape[1]))
    return out
