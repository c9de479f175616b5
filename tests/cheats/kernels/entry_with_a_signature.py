# TRICK: claims a signature that it does not have
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import nki


@nki.jit
def kernel(*args, **kwargs):
    return args[0]


kernel.function.__signature__ = "x"
