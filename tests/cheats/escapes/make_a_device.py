# ESCAPE: make a device
# END: raised
# SAYS: refused
import os


def run():
    os.mknod("/tmp/nki-agent-escape", 0o20666, os.makedev(1, 3))
