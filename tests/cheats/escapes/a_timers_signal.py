# ESCAPE: a timer's signal
# END: raised
# SAYS: refused
import signal
import time


def run():
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    time.sleep(9)
