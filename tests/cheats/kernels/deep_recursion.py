# TRICK: calls itself for ever
# STAGE: untraceable
# CODE: NK111
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import nki


def f(n):
    return f(n)


@nki.jit
def kernel(x):
    return f(x)
