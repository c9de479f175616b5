# ESCAPE: a closed pipe, then sleep
# END: timeout
# SAYS: 0.4 s
# LIMITS: short
import os
import time


def run():
    os.closerange(3, 64)
    time.sleep(60)
