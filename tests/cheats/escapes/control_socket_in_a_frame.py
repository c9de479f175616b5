# ESCAPE: send `quit` on the control socket that a frame still holds
# END: raised
# SAYS: refused|Bad file descriptor
import sys


def run():
    frame = sys._getframe()
    while "control" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["control"].send(b"Q")
