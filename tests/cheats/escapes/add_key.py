# ESCAPE: store a key in Linux
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(248, 217), 0, 0, 0, 0, -3)
