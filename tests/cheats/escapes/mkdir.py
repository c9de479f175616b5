# ESCAPE: mkdir
# END: raised
# SAYS: refused
import os


def run():
    os.mkdir("/tmp/nki-agent-escape")
