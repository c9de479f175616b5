# ESCAPE: signal by a descriptor's owner
# END: raised
# SAYS: refused
import os
import fcntl


def run():
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())
