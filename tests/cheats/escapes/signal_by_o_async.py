# ESCAPE: signal by O_ASYNC
# END: raised
# SAYS: refused
import os
import fcntl


def run():
    fcntl.fcntl(0, fcntl.F_SETFL, os.O_ASYNC)
