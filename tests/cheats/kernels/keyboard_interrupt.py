# TRICK: raises KeyboardInterrupt
# STAGE: untraceable
# CODE: NK109
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


@nki.jit
def kernel(x):
    raise KeyboardInterrupt
