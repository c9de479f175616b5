# ESCAPE: hold the lock of a file that others need
# END: raised
# SAYS: refused
import fcntl
import os


def run():
    with open(os.__file__, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
