# ESCAPE: make one of the clocks go slower
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(305, 266), 0, 0)
