# ESCAPE: huge result by hand
# END: oversize
# SAYS: 1048576 bytes
import os
from probing import descriptors


def run():
    while True:
        os.write(max(descriptors()), bytes(1 << 16))
