# ESCAPE: give descriptors away over a socket
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(46, 211), 0, 0, 0)
