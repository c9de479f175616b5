# TRICK: never ends
# STAGE: untraceable
# CODE: NK111
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import nki


@nki.jit
def kernel(x):
    while True:
        pass
