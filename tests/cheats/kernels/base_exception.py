# TRICK: raises an error that is no Exception
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


class Rude(BaseException):
    pass


@nki.jit
def kernel(x):
    raise Rude("x")
