# ESCAPE: a forged length that is short
# END: exited
# SAYS: without a result
import os
from probing import descriptors


def run():
    os.write(max(descriptors()), b"=" + bytes(8) + bytes([1] + [0] * 7) + b"xx")
    os._exit(0)
