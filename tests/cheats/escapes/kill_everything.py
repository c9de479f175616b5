# ESCAPE: kill everything
# END: raised
# SAYS: refused
import os
import signal


def run():
    os.kill(-1, signal.SIGKILL)
