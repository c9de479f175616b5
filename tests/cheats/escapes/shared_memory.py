# ESCAPE: shared memory
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(29, 194), 0, 4096, 0o1600)
