# ESCAPE: have Linux write a file at each end of a process
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(163, 89), 0)
