# ESCAPE: take a higher priority
# END: raised
# SAYS: refused
import os


def run():
    os.nice(-5)
