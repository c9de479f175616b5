# TRICK: raises MemoryError as if the machine had failed
# STAGE: untraceable
# CODE: NK111
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import nki


@nki.jit
def kernel(x):
    raise MemoryError
