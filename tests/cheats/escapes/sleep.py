# ESCAPE: sleep
# END: timeout
# SAYS: 0.4 s
# LIMITS: short
import time


def run():
    time.sleep(60)
