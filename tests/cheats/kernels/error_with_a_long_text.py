# TRICK: raises an error of 20 MB
# STAGE: untraceable
# CODE: NK109
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


@nki.jit
def kernel(x):
    raise ValueError("\x1b[2J" + "x" * 20_000_000)
