# ESCAPE: openat2
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(437, -100, 0, 0, 0)
