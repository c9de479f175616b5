# ESCAPE: start a thread by the number of the call
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(56, 220), 0x50F00, 0, 0, 0, 0)
