# TRICK: raises an error whose text is no text
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


class Hostile(Exception):
    def __str__(self):
        return 42


@nki.jit
def kernel(x):
    raise Hostile("x")
