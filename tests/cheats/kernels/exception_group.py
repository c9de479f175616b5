# TRICK: raises a thousand errors nested in one another
# STAGE: untraceable
# CODE: NK109
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


@nki.jit
def kernel(x):
    error = ValueError("x")
    for _ in range(1000):
        error = ExceptionGroup("x", [error])
    raise error
