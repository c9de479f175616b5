# ESCAPE: become root by setresuid
# END: raised
# SAYS: refused
import os


def run():
    os.setresuid(0, 0, 0)
