# ESCAPE: ignore every signal and loop
# END: timeout
# SAYS: 0.4 s
# LIMITS: short
import signal


def run():
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        pass
