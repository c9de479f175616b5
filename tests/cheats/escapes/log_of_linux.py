# ESCAPE: read the log of Linux
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(103, 116), 3, 0, 0)
