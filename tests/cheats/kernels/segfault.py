# TRICK: reads address 0
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import ctypes

import nki


@nki.jit
def kernel(x):
    ctypes.string_at(0)
