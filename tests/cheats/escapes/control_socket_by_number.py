# ESCAPE: say `kill` and `quit` on every descriptor
# END: exited
# SAYS: without a result
import os


def run():
    for number in range(3, 1024):
        for word in (b"K", b"Q", b"R"):
            try:
                os.write(number, word)
            except OSError:
                continue
    os._exit(0)
