# ESCAPE: write half a result and end
# END: exited
# SAYS: without a result
import os
from probing import descriptors


def run():
    os.write(max(descriptors()), b"=" + bytes(8) + (100).to_bytes(8, "little") + bytes(50))
    os._exit(0)
