# TRICK: raises an error that is its own cause
# STAGE: untraceable
# CODE: NK109
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


@nki.jit
def kernel(x):
    error = ValueError("x")
    error.__cause__ = error.__context__ = error
    raise error
