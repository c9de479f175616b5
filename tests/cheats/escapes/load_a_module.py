# ESCAPE: load code into Linux
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(175, 105), 0, 0, 0)
