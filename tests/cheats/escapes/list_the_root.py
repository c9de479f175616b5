# ESCAPE: list /
# END: raised
# SAYS: refused
import os


def run():
    os.listdir("/")
