# TRICK: raises an error whose text ends the process
# STAGE: refused
# CODE: NK103
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


class Hostile(Exception):
    def __str__(self):
        raise SystemExit(0)


@nki.jit
def kernel(x):
    raise Hostile("x")
