# ESCAPE: kill whatever is in the warmed process's group
# END: raised
# SAYS: refused
import os
import signal


def run():
    os.killpg(os.getppid(), signal.SIGKILL)
