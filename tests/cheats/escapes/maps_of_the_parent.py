# ESCAPE: learn where the warmed process has its memory
# END: raised
# SAYS: refused
import os


def run():
    open(f"/proc/{os.getppid()}/maps").read()
