# ESCAPE: make the clock go slower
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(159, 171), 0)
