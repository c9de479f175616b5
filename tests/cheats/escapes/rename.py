# ESCAPE: rename
# END: raised
# SAYS: refused
import os


def run():
    os.rename("/tmp", "/tmp2")
