# TRICK: raises an error that says it is another
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: untraceable
# BEHIND CODE: NK111
import nki


class Hostile(Exception):
    @property
    def __class__(self):
        raise self

    def __getattribute__(self, name):
        raise self


@nki.jit
def kernel(x):
    raise Hostile("x")
