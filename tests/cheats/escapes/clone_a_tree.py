# ESCAPE: take a copy of the tree of mounts
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(428, -100, 0, 1)
