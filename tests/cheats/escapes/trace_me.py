# ESCAPE: let the parent trace it
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(101, 117), 0, 0, 0, 0)
