# TRICK: raises an error whose traceback it replaced
# STAGE: untraceable
# CODE: NK109
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


@nki.jit
def kernel(x):
    raise ValueError("x").with_traceback(None) from None
