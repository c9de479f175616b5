# ESCAPE: read signals from a descriptor
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(289, 74), -1, 0, 8, 0)
