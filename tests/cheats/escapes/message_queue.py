# ESCAPE: message queue
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(240, 180), 0, 0, 0, 0)
