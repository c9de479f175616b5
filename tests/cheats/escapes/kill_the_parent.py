# ESCAPE: kill the parent
# END: raised
# SAYS: refused
import os
import signal


def run():
    os.kill(os.getppid(), signal.SIGKILL)
