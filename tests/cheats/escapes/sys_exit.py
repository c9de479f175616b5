# ESCAPE: sys.exit
# END: exited
# SAYS: status 3
import sys


def run():
    sys.exit(3)
