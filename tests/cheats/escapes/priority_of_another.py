# ESCAPE: slow the warmed process down
# END: raised
# SAYS: refused
import os


def run():
    os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)
