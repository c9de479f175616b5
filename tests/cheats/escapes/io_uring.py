# ESCAPE: io_uring
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(425, 1, 0)
