# ESCAPE: setuid(0)
# END: raised
# SAYS: refused
import os


def run():
    os.setuid(0)
