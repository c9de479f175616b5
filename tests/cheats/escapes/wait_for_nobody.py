# ESCAPE: wait for a lock that nobody gives back
# END: timeout
# SAYS: 0.4 s
# LIMITS: short
import threading


def run():
    threading.Semaphore(0).acquire()
