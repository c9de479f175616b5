# ESCAPE: ignore the signal that ends its CPU time
# END: timeout
# SAYS: over 1 s of CPU
# LIMITS: one CPU second
import signal


def run():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass
