# ESCAPE: a forged length that is huge
# END: oversize
# SAYS: 1048576 bytes
import os
from probing import descriptors


def run():
    os.write(max(descriptors()), b"=" + bytes(8) + b"\xff" * 8)
    os._exit(0)
