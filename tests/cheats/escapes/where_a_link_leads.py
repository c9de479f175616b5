# ESCAPE: where a link leads
# END: raised
# SAYS: refused
import os


def run():
    os.readlink(f"/proc/{os.getppid()}/cwd")
