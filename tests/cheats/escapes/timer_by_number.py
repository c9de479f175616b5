# ESCAPE: make a timer that sends a signal
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(222, 107), 0, 0, 0)
