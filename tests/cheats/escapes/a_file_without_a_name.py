# ESCAPE: a file without a name
# END: raised
# SAYS: refused
import os


def run():
    os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
