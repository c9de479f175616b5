# ESCAPE: make a file of what is open as large as it can be
# END: raised
# SAYS: refused
import os
from probing import descriptors


def run():
    for number in descriptors():
        os.posix_fallocate(number, 0, 1 << 40)
