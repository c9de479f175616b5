# ESCAPE: move to another core
# END: raised
# SAYS: refused
import os


def run():
    os.sched_setaffinity(0, {0})
