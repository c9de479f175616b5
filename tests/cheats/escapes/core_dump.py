# ESCAPE: have Linux write its memory to the disk
# END: raised
# SAYS: refused|raise maximum
import os
import resource


def run():
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30))
    os.abort()
