# ESCAPE: read the disk before everybody else
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(251, 30), 1, 0, 8192)
