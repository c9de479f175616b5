# TRICK: raises an error whose text never ends
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import nki


class Hostile(Exception):
    def __str__(self):
        while True:
            pass


@nki.jit
def kernel(x):
    raise Hostile("x")
