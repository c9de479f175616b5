# ESCAPE: os._exit(7)
# END: exited
# SAYS: status 7
import os


def run():
    os._exit(7)
