# ESCAPE: capset
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(126, 91), 0, 0)
