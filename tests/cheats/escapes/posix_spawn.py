# ESCAPE: posix_spawn
# END: raised
# SAYS: refused
import os


def run():
    os.posix_spawn("/bin/id", ["id"], {})
