# ESCAPE: another's environment
# END: raised
# SAYS: refused
import os


def run():
    open(f"/proc/{os.getppid()}/environ").read()
