# ESCAPE: bind a descriptor that is open already
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(49, 200), 0, 0, 0)
