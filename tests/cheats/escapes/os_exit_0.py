# ESCAPE: os._exit(0)
# END: exited
# SAYS: status 0
import os


def run():
    os._exit(0)
