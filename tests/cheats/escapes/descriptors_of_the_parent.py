# ESCAPE: open the warmed process's control socket in /proc
# END: raised
# SAYS: refused
import os


def run():
    for number in range(64):
        open(f"/proc/{os.getppid()}/fd/{number}", "r+b", buffering=0)
