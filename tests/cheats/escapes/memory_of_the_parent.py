# ESCAPE: read the warmed process's memory in /proc
# END: raised
# SAYS: refused
import os


def run():
    open(f"/proc/{os.getppid()}/mem", "rb").read(1)
