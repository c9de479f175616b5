# ESCAPE: take the machine's swap space
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(168, 225), 0)
