# ESCAPE: take a descriptor out of another process
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(438, 0, 0, 0)
