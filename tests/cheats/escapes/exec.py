# ESCAPE: exec
# END: raised
# SAYS: refused
import os


def run():
    os.execv("/bin/sh", ["sh", "-c", "id"])
