# ESCAPE: set the clock
# END: raised
# SAYS: refused
import time


def run():
    time.clock_settime(time.CLOCK_REALTIME, 0)
