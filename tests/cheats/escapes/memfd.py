# ESCAPE: memfd
# END: raised
# SAYS: refused
import os


def run():
    os.memfd_create("x")
