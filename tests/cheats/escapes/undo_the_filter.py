# ESCAPE: turn the filter of system calls off
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(157, 167), 22, 0, 0, 0, 0)
