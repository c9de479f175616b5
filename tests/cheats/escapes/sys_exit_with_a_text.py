# ESCAPE: sys.exit with a text
# END: exited
# SAYS: status 1
import sys


def run():
    sys.exit("passed")
