# ESCAPE: be given descriptors over a socket
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(47, 212), 0, 0, 0)
