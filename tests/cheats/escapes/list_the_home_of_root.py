# ESCAPE: list /root
# END: raised
# SAYS: refused
import os


def run():
    os.listdir("/root")
