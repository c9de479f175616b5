# TRICK: raises an error whose text raises itself
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


class Hostile(Exception):
    def __str__(self):
        raise self

    __repr__ = __str__


@nki.jit
def kernel(x):
    raise Hostile("x")
