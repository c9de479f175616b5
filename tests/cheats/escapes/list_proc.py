# ESCAPE: list /proc
# END: raised
# SAYS: refused
import os


def run():
    os.listdir("/proc")
