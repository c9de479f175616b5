# ESCAPE: make a descriptor for events
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(290, 19), 0, 0)
