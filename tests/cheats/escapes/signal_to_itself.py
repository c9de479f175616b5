# ESCAPE: stop, so that nobody knows whether it lives
# END: raised
# SAYS: refused
import os
import signal


def run():
    os.kill(os.getpid(), signal.SIGSTOP)
