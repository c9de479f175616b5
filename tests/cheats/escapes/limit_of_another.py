# ESCAPE: lower a limit of the warmed process
# END: raised
# SAYS: refused
import os
import resource


def run():
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))
