# ESCAPE: kill the group
# END: raised
# SAYS: refused
import os
import signal


def run():
    os.killpg(0, signal.SIGKILL)
