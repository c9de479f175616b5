# ESCAPE: write a result, then another
# END: exited
# SAYS: without a result
import os
from probing import descriptors


def run():
    frame = b"=" + bytes(8) + (1).to_bytes(8, "little")
    os.write(max(descriptors()), frame + b"a" + frame + b"b")
    os._exit(0)
