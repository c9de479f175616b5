# ESCAPE: start a pool of processes
# END: raised
# SAYS: refused|out of pty devices|No such file
import os


def run():
    os.register_at_fork(before=print)
    return [os.forkpty() for _ in range(4)]
