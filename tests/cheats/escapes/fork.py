# ESCAPE: fork
# END: raised
# SAYS: refused
import os


def run():
    os.fork()
