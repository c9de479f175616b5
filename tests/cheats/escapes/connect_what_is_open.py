# ESCAPE: connect a descriptor that is open already
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(42, 203), 0, 0, 0)
