# ESCAPE: run before everybody else
# END: raised
# SAYS: refused
import os


def run():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
