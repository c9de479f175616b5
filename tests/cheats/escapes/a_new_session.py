# ESCAPE: a new session
# END: raised
# SAYS: refused
import os


def run():
    os.setsid()
