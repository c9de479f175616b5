# ESCAPE: make a descriptor for polling
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(291, 20), 0)
