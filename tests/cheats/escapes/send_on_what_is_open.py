# ESCAPE: send on what is open
# END: raised
# SAYS: refused
from probing import call, descriptors, of


def run():
    call(of(44, 206), max(descriptors()), 0, 0, 0, 0, 0)
